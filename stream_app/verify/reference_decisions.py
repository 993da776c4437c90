"""What `areba verify` expects of the class of a prediction: it follows from score, probability and threshold."""

import struct
from collections.abc import Iterator

from stream_app.records import Prediction, ThresholdKind
from stream_app.verify.reference_state import ErrorCosts, Predicted


def decision_faults(event: Predicted, found: Prediction) -> Iterator[str]:
    """Say what is wrong with threshold and class of a prediction."""
    wanted = event.threshold
    if found.threshold_kind != wanted.kind.text:
        yield f"threshold_kind is {found.threshold_kind}, must be {wanted.kind.text}"
        return
    number = None if wanted.value is None else as_float32(wanted.value)
    if wanted.costs:
        number = _threshold_of(event.costs)
    if wanted.kind is ThresholdKind.ALERTS:
        number = found.threshold  # `reference_alerts` computes it from all scores so far
    if found.threshold != number:
        yield f"threshold is {found.threshold}, must be {number}"
    if event.votes and number is None:
        return  # no record says how the networks voted
    is_probability = wanted.kind in (ThresholdKind.PROBABILITY, ThresholdKind.COSTS)
    compared = found.probability if is_probability else found.score
    limit = 0.5 if number is None else number
    if found.predicted_class != int(compared > limit):
        says = f"{found.predicted_class}, but {compared} is {'' if compared > limit else 'not '}above {limit}"
        yield f"predicted_class is {says}"


def _threshold_of(costs: ErrorCosts | None) -> float:
    """Return the probability above which class 1 costs less."""
    both = 0.0 if costs is None else costs.false_positive + costs.false_negative
    return 1.0 if costs is None or not both else as_float32(costs.false_positive / both)


def as_float32(number: float) -> float:
    """Return the float32 that is nearest to a number."""
    rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return rounded
