"""Policies: when the label of an example is shown to a learner, and which label.

A policy is a pure function of the example's number, its class, and the class that the learner predicted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from study.run.checked import DueLabel, labels_of
from study.run.experiment import Checks


class LabelPolicy(Protocol):
    """Decides which labels of an example are shown, and when."""

    @property
    def depends_on_predictions(self) -> bool:
        """Whether what the learner predicts decides which labels are shown."""

    @property
    def first_scored(self) -> int:
        """The number of the first example that is scored: before it, no label has been shown."""

    def labels_of(self, number: int, truth: int, predicted: int, checked_at: int) -> Iterator[tuple[int, DueLabel]]:
        """Yield the labels of an example, each with the number of the example after which it is shown.

        Args:
            number: The example's number.
            truth: Its class.
            predicted: The class that the learner predicted on its arrival.
            checked_at: The number of the example after which the next checks are done.
        """


@dataclass(frozen=True, slots=True)
class Late:
    """Each example's true label is shown after as many further examples; 0: before the next example.

    Attributes:
        examples: The delay.
    """

    examples: int = 0

    depends_on_predictions = False

    @property
    def first_scored(self) -> int:
        """The number of the first example that arrives after a label; the first of all without a delay."""
        return self.examples

    def labels_of(self, number: int, truth: int, predicted: int, checked_at: int) -> Iterator[tuple[int, DueLabel]]:
        """Yield the true label; see `LabelPolicy`."""
        del predicted, checked_at
        yield number + self.examples, DueLabel(number, truth, 0)


@dataclass(frozen=True, slots=True)
class CheckedAlerts:
    """Only predicted positives are checked, after a beginning in which all examples are; see `study.run.checked`.

    Attributes:
        checks: What is checked, and when the other examples count as negative.
    """

    checks: Checks

    depends_on_predictions = True
    first_scored = 0

    def labels_of(self, number: int, truth: int, predicted: int, checked_at: int) -> Iterator[tuple[int, DueLabel]]:
        """Yield what a check, a complaint and the time-out show; see `LabelPolicy`."""
        return labels_of(number, truth, predicted, self.checks, checked_at)


def _checked(complaint_examples: int | None) -> CheckedAlerts:
    return CheckedAlerts(Checks(labelled_examples=5_000, timeout_examples=1_000, complaint_examples=complaint_examples))


POLICIES: Mapping[str, LabelPolicy] = {
    "at-once": Late(),
    "late-1000": Late(1_000),
    "late-10000": Late(10_000),
    "waits": _checked(500),
    "corrected-1200": _checked(1_200),
    "corrected": _checked(2_000),
    "never": _checked(None),
}
"""By name. Only alerts are checked in the last three: complaints about missed positives come before the time-out (the
label waits for them), after it (they correct the label), or never."""
