"""From when on a stream predicts class 1: its threshold."""

from typing import Annotated, Any, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from stream_app.config.values import Number, Settings
from stream_app.records import ThresholdKind

_FORMS = "`majority`, or a section with `score` or `probability`"


class ThresholdSettings(Settings):
    """A threshold; without a setting, it is `majority`.

    Attributes:
        score: An example is class 1 if its score is above this number.
        probability: An example is class 1 if its probability is above this number.
    """

    score: Annotated[Number, Field(ge=0, le=1)] | None = None
    probability: Annotated[Number, Field(ge=0, le=1)] | None = None

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
        return next((value for value in self.__dict__.values() if value is not None), None)

    def __str__(self) -> str:
        return self.kind.text if self.value is None else f"{self.kind.text} {self.value:g}"


def _plain_threshold(value: object) -> object:
    """Return the section that a word stands for."""
    if value == "majority":
        return {}
    if isinstance(value, str):
        raise ValueError(f"must be {_FORMS}, is {value!r}")  # noqa: TRY004  (pydantic collects ValueError)
    return value


Threshold: TypeAlias = Annotated[ThresholdSettings, BeforeValidator(_plain_threshold)]


def threshold_of(kind: str, value: float | None) -> ThresholdSettings:
    """Return a threshold.

    Raises:
        ValueError: There is no such kind, or its number is missing, or out of its bounds.
    """
    if (value is None) != (kind == "majority"):
        raise ValueError(f"{kind} {'needs a number' if value is None else 'has no number'}")
    content: dict[str, Any] = {} if value is None else {kind: value}
    return ThresholdSettings.model_validate(content)
