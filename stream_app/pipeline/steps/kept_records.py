"""What streams keep of records that wait, as they came: labels, and the headers that examples pass on."""

from collections.abc import Mapping, Sequence

import numpy as np

from stream_app.arrays import Integers
from stream_app.join.constants import OutputKind
from stream_app.join.output import JoinOutput
from stream_app.pipeline.batch import InputBatch
from stream_app.pipeline.outputs import Collector, DeadLetterRow
from stream_app.pipeline.stream import Stream
from stream_app.records import Cause, Header, Operation, Reason


def keep_labels(
    batch: InputBatch, streams: Sequence[Stream], which: Integers, out: JoinOutput, collector: Collector
) -> None:
    """Keep the labels that began to wait as they came, hand out dead letters, drop labels that no longer wait.

    Args:
        batch: The batch.
        streams: The streams of the task.
        which: int32 `[s]`, the stream of each segment.
        out: The results of the join.
        collector: Takes the dead letters.
    """
    for row, segment in enumerate(segments_of(out, OutputKind.WAITING)):
        waiting = streams[which[segment]].waiting
        waiting[int(out.waiting_slots[row])] = batch.original(int(out.waiting_positions[row]))
    for row, segment in enumerate(segments_of(out, OutputKind.DEAD)):
        position, slot = int(out.dead_positions[row]), int(out.dead_slots[row])
        reason = Reason(int(out.dead_reasons[row]))
        why = Cause(int(out.dead_causes[row])), int(out.dead_delays[row])
        if slot < 0:
            collector.bury(position, reason, *why)
        else:
            stream = streams[which[segment]]
            collector.dead(position, DeadLetterRow(reason, stream.waiting[slot], stream.name, *why))
    for row, segment in enumerate(segments_of(out, OutputKind.RELEASED)):
        del streams[which[segment]].waiting[int(out.released_slots[row])]


def pass_headers(
    batch: InputBatch, streams: Sequence[Stream], which: Integers, out: JoinOutput
) -> Mapping[int, Sequence[Header]]:
    """Keep the headers of the examples that were predicted, and take out those of the examples that were closed.

    Args:
        batch: The batch.
        streams: The streams of the task.
        which: int32 `[s]`, the stream of each segment.
        out: The results of the join.

    Returns:
        The headers that outcomes carry, by row of the outcomes in merge order. An outcome that closes no example, but
        is caused by one that repeats another, has those of the example that causes it.
    """
    if batch.carried.passed:
        segments, codes = segments_of(out, OutputKind.OPERATIONS), out.codes
        for row, headers in batch.passed(out.positions[: len(segments)]).items():
            if codes[row] == Operation.PREDICT:
                streams[which[segments[row]]].passed.put(int(out.slots[row]), headers)
    segments = segments_of(out, OutputKind.OUTCOMES)
    positions, slots = out.outcomes["position"][: len(segments)], out.outcome_slots.tolist()
    repeating = batch.passed(positions)
    found: dict[int, Sequence[Header]] = {}
    for row, at in enumerate(np.argsort(positions, kind="stable").tolist()):
        slot = slots[at]
        headers = streams[which[segments[at]]].passed.take(slot) if slot >= 0 else repeating.get(at, ())
        if headers:
            found[row] = headers
    return found


def segments_of(out: JoinOutput, kind: int) -> Sequence[int]:
    """Return the segment of each row of this kind of output."""
    if not out.counts[kind]:
        return ()
    segments: list[int] = np.repeat(np.arange(len(out.bounds) - 1), np.diff(out.bounds[:, kind])).tolist()
    return segments
