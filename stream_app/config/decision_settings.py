"""What errors cost in a stream, and from when on it predicts class 1: its threshold."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from stream_app.config.column_settings import ColumnSettings
from stream_app.config.values import Number, Settings
from stream_app.records import ThresholdKind

_FORMS = "`majority`, `costs`, or a section with `score`, `probability` or `alerts`"

_LARGEST_COST = 1e9


def _cost(value: object) -> object:
    """Return a cost as a float, or the name of a column."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LARGEST_COST:
        return float(value)
    raise ValueError(f"must be a number from 0 to {_LARGEST_COST:g}, or the name of a column, is {value!r}")


Cost: TypeAlias = Annotated[Annotated[float, Field(ge=0, le=_LARGEST_COST)] | str, BeforeValidator(_cost)]


class CostSettings(Settings):
    """What an error costs: a number, or the name of a column of numbers, whose value is the cost of an example.

    Attributes:
        false_positive: The cost of an example of class 0 that is predicted as class 1.
        false_negative: The cost of an example of class 1 that is predicted as class 0.
    """

    false_positive: Cost
    false_negative: Cost

    @property
    def both(self) -> tuple[float | str, float | str]:
        """The cost of a false positive, and of a false negative."""
        return self.false_positive, self.false_negative


class ThresholdSettings(Settings):
    """A threshold; without a setting, it is `majority`.

    Attributes:
        score: An example is class 1 if its score is above this number.
        probability: An example is class 1 if its probability is above this number.
        alerts: This share of the examples is class 1: those with the highest scores.
        costs: An example is class 1 if class 1 is expected to cost less than class 0, by the costs of the stream.
    """

    score: Annotated[Number, Field(ge=0, le=1)] | None = None
    probability: Annotated[Number, Field(ge=0, le=1)] | None = None
    alerts: Annotated[Number, Field(gt=0, lt=1)] | None = None
    costs: Literal[True] | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if sum(value is not None for value in self.__dict__.values()) > 1:
            raise ValueError(f"must be {_FORMS}, not several")
        return self

    @property
    def kind(self) -> ThresholdKind:
        """What decides."""
        given = (name for name, value in self.__dict__.items() if value is not None)
        return ThresholdKind[next(given, "majority").upper()]

    @property
    def value(self) -> float | None:
        """The number that the threshold has; None: its kind has none."""
        return next((value for value in (self.score, self.probability, self.alerts) if value is not None), None)

    def __str__(self) -> str:
        return self.kind.text if self.value is None else f"{self.kind.text} {self.value:g}"


def _plain_threshold(value: object) -> object:
    """Return the section that a word stands for."""
    if value == "majority":
        return {}
    if value == "costs":
        return {"costs": True}
    if isinstance(value, str):
        raise ValueError(f"must be {_FORMS}, is {value!r}")  # noqa: TRY004  (pydantic collects ValueError)
    return value


Threshold: TypeAlias = Annotated[ThresholdSettings, BeforeValidator(_plain_threshold)]


def threshold_of(kind: str | None, value: float | None) -> ThresholdSettings:
    """Return a threshold.

    Raises:
        ValueError: There is no such kind, or its number is missing, or out of its bounds.
    """
    if (value is None) != (kind in {"majority", "costs"}):
        raise ValueError(f"{kind} {'needs a number' if value is None else 'has no number'}")
    content: Any = _plain_threshold(kind or "") if value is None else {kind: value}
    return ThresholdSettings.model_validate(content)


def decision_conflicts(
    threshold: ThresholdSettings, costs: CostSettings | None, columns: Mapping[str, ColumnSettings]
) -> Iterator[tuple[str, str]]:
    """Yield the settings of a stream's decisions that contradict its others, each with the reason."""
    if threshold.costs and costs is None:
        yield "threshold", "`costs` needs the costs of the stream: {false_positive: ..., false_negative: ...}"
    for cost in () if costs is None else costs.both:
        if isinstance(cost, str) and not (cost in columns and columns[cost].is_number):
            yield "costs", f"there is no column {cost!r} of numbers"
