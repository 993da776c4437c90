"""Count the consequences of faults that the outputs of a task show, and check the range of its scores."""

from collections.abc import Mapping, Sequence
from typing import Any

from stream_app.records import Outcome, Prediction, Reason
from stream_app.serialization import codec
from stream_app.serialization.dead_letter import DeadLetterRecord
from stream_app.serialization.left_out import read_left_out
from tests.simulation.faults import Event
from tests.simulation.opinion import Opinion
from tests.simulation.worlds.inputs import DAY_MS
from tests.simulation.worlds.shape import make_configuration
from tests.simulation.worlds.world import World, WrongError
from tests.support.formats.wire_formats import CONFLUENT

LARGE = 1_000.0
"""A larger feature is an outlier."""


def count(world: World, opinion: Opinion | None, outputs: Mapping[str, Sequence[tuple[Any, ...]]]) -> None:
    """Count the events that the records reached."""
    events, configured = world.faults.events, world.config("w1").streams
    letters = outputs["dead-letters"]
    events[Event.DEAD_LETTER] += len(letters)
    reasons = [found.reason for letter in letters if (found := DeadLetterRecord.read(*letter)) is not None]
    events[Event.LATE_LABEL] += reasons.count(Reason.LATE_LABEL.text)
    events[Event.LEFT_OUT] += sum(bool(read_left_out(headers)[1]) for *_, headers in letters)
    kinds = {
        "unlabelled": Event.EXPIRED,
        "evicted": Event.EVICTED,
        "duplicate": Event.DUPLICATE,
        "correction": Event.CORRECTED,
    }
    methods = {kind.rpartition(" ")[2]: kind for kind in Event if kind.startswith("learned by ")}
    for example in opinion.examples if opinion is not None else ():
        events[Event.OUTLIER] += any(abs(value) > LARGE for value in example.features)
        events[Event.COLUMNS] += example.values is not None
    events[Event.LEFT_DUE] += opinion.left_due if opinion is not None else 0
    for _, value, _ in outputs["outcomes"]:
        record = codec.decode_one(value, CONFLUENT)  # reads both formats
        if isinstance(record, Outcome):
            events[Event.LABELLED_DAYS_LATER] += (record.delay_ms or 0) > DAY_MS
            if record.outcome in kinds:
                events[kinds[record.outcome]] += 1
    files = [make_configuration(world.shape.choice, late).streams for late in (False, True)]
    from_files = {(name, stream.threshold.kind.text) for file in files for name, stream in file.items()}
    for _, value, _ in outputs["predictions"]:
        record = codec.decode_one(value, CONFLUENT)  # reads both formats
        if isinstance(record, Prediction):
            events[Event.PROMOTED] += record.champion and record.learner != "areba"
            kind = record.threshold_kind
            events[Event.DECIDED] += kind != "majority" and (record.stream, kind) not in from_files
            events[Event.UNCONFIGURED] += record.stream not in configured
            if not 0.0 <= record.score <= 1.0:
                raise WrongError(f"a score of {record.score}: {record}")
            if record.model_version and record.learner in methods:
                events[methods[record.learner]] += 1
