"""The real task against itself: where a batch ends, and when its records arrive, shows in no output."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.config import Corrections, CostSettings, MetricSettings, StreamSettings, TaskSettings, threshold_of
from stream_app.pipeline.merge import cut
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.records import Example, Label, Mark, MarkKind, Outcome, Prediction, Side
from stream_app.serialization import codec
from stream_app.verify.reference_merge import merge
from stream_app.verify.reference_state import Record
from tests.oracle_checks import SecondOpinion
from tests.support.tasks import (
    FEW,
    LEARNERS,
    PARTITION,
    SIDES,
    SMALL,
    TOPICS,
    cut_at,
    fixed_input,
    one_side,
    run,
    settings_of_task,
    task_settings,
)


@FEW
@given(task_settings(), one_side(Side.EXAMPLES), one_side(Side.LABELS), st.data())
def test_a_task_gives_the_same_bits_for_any_cut_of_batches(
    task_settings: TaskSettings, examples: list[Record], labels: list[Record], data: st.DataObject
) -> None:
    """Clock and network decide where a batch ends, and a restored task cuts elsewhere: no byte or weight may differ."""
    sequence = list(merge(examples, labels))
    ends = data.draw(st.lists(st.integers(0, len(sequence)), max_size=12))
    assert run(task_settings, cut_at(sequence, ends)) == run(task_settings, [(examples, labels)])


@pytest.mark.parametrize("corrections", ["first", "correct"])
def test_one_record_a_batch(corrections: Corrections) -> None:
    """The smallest possible batches, on a fixed input that reaches every kind of output."""
    chosen, examples, labels = fixed_input(120, join=SMALL.model_copy(update={"corrections": corrections}))
    sequence = list(merge(examples, labels))
    whole = run(chosen, [(examples, labels)])
    assert all(whole.rows[topic] for topic in OUTPUT_TOPICS)
    assert run(chosen, cut_at(sequence, range(len(sequence)))) == whole


def with_mark(mark: Mark, place: int) -> tuple[list[Record], list[Record]]:
    """Return 60 examples of a stream, one of which is replaced by a mark, and labels that come 20 examples later."""
    examples, labels = [], []
    for number in range(60):
        meaning = mark if number == place else Example("a", str(number), (number % 7 / 7, number % 2))
        time_ms = 10 * number + 1
        examples.append(Record(Side.EXAMPLES, number, time_ms, meaning, b"a", codec.encode(meaning), ()))
        label = Label("a", str(number), number % 2)
        labels.append(Record(Side.LABELS, number, time_ms + 205, label, b"a", codec.encode(label), ()))
    return examples, labels


@settings(FEW, max_examples=30)
@given(st.integers(1, 59), st.lists(st.integers(0, 120), max_size=8))
def test_a_promotion_holds_from_its_record_on(place: int, ends: list[int]) -> None:
    """A single record changes the champion; an outcome names the champion of its example, however late its label is."""
    stream = StreamSettings(features=2, champion="one", learners=LEARNERS)
    chosen = settings_of_task(
        metrics=MetricSettings(every_labels=10),
        streams={"a": stream, "b": stream},
        default_stream=stream,
    )
    examples, labels = with_mark(Mark("a", MarkKind.PROMOTE, learner="two"), place)
    whole = run(chosen, [(examples, labels)])
    predictions = [codec.decode_one(row.value or b"") for row in whole.rows["predictions"]]
    outcomes = [codec.decode_one(row.value or b"") for row in whole.rows["outcomes"]]
    wanted = [(str(n), "one" if n < place else "two") for n in range(60) if n != place]
    assert [(p.id, p.learner) for p in predictions if isinstance(p, Prediction) and p.champion] == wanted
    assert [(o.id, o.learner) for o in outcomes if isinstance(o, Outcome)] == wanted
    sequence = list(merge(examples, labels))
    assert run(chosen, cut_at(sequence, ends)) == whole


@settings(FEW, max_examples=30)
@given(
    st.integers(1, 59),
    st.sampled_from([("majority", None), ("score", 0.25), ("probability", 0.25), ("alerts", 0.3), ("costs", None)]),
    st.lists(st.integers(0, 120), max_size=8),
)
def test_a_promoted_threshold_holds_from_its_record_on(
    place: int, threshold: tuple[str, float | None], ends: list[int]
) -> None:
    """A single record changes what decides; an outcome has the class that was decided, however late its label is."""
    costs = CostSettings(false_positive=1, false_negative=3)
    stream = StreamSettings(
        features=2, champion="one", learners=LEARNERS, threshold=threshold_of("score", 0.75), costs=costs
    )
    chosen = settings_of_task(
        metrics=MetricSettings(every_labels=10),
        predictions="all",
        streams={"a": stream, "b": stream},
        default_stream=stream,
    )
    mark = Mark("a", MarkKind.DECIDE, threshold_kind=threshold[0], threshold=threshold[1])
    examples, labels = with_mark(mark, place)
    whole = run(chosen, [(examples, labels)])
    SecondOpinion(chosen, TOPICS, PARTITION).check(examples, labels, whole.rows)
    predictions = [codec.decode_one(row.value or b"") for row in whole.rows["predictions"]]
    decided = [(int(p.id), p.threshold_kind) for p in predictions if isinstance(p, Prediction) and p.learner == "two"]
    assert decided == [(n, "score" if n < place else threshold[0]) for n in range(60) if n != place]
    sequence = list(merge(examples, labels))
    assert run(chosen, cut_at(sequence, ends)) == whole


@pytest.mark.parametrize("example_chunk", [1, 7, 1000])
@pytest.mark.parametrize("label_chunk", [1, 7, 1000])
def test_arrival_does_not_show(example_chunk: int, label_chunk: int) -> None:
    """The merge waits for the side that lags: the size of the portions on either side changes nothing."""
    chosen, examples, labels = fixed_input(400)
    batches = list(arriving((examples, labels), (example_chunk, label_chunk)))
    assert sum(len(batch[0]) + len(batch[1]) for batch in batches) == len(examples) + len(labels)
    assert run(chosen, batches) == run(chosen, [(examples, labels)])


def arriving(
    sides: tuple[list[Record], list[Record]], chunks: tuple[int, int]
) -> Iterator[tuple[list[Record], list[Record]]]:
    """Yield batches as the worker cuts them, when each side arrives in its own portions."""
    waiting: tuple[list[Record], list[Record]] = ([], [])
    read = [0, 0]
    while waiting[0] or waiting[1] or read[0] < len(sides[0]) or read[1] < len(sides[1]):
        for side in SIDES:
            if not waiting[side]:
                waiting[side].extend(sides[side][read[side] : read[side] + chunks[side]])
                read[side] += chunks[side]
        times = [np.array([record.time_ms for record in waiting[side]], np.int64) for side in SIDES]
        at_end = [read[side] >= len(sides[side]) for side in SIDES]
        taken = cut(times[0], times[1], examples_at_end=at_end[0], labels_at_end=at_end[1], limit=10_000)
        assert sum(taken) > 0, "both heads are known, or a side is at its end: something must continue"
        yield waiting[0][: taken[0]], waiting[1][: taken[1]]
        for side in SIDES:
            del waiting[side][: taken[side]]
