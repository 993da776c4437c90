"""The real task against the reference join (`stream_app.verify.reference_join`)."""

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.config import Config, Corrections, JoinSettings, MetricSettings, StreamSettings, TaskSettings
from stream_app.config.memory_bound import bound_of
from stream_app.pipeline.degradation import ChangeMonitor, DetectedChange
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.pipeline.prequential import Prequential
from stream_app.pipeline.task import Task
from stream_app.pipeline.transaction_bounds import Room
from stream_app.records import Example, Label, Metric, Outcome, Side
from stream_app.serialization import codec
from stream_app.verify.reference_merge import merge
from stream_app.verify.reference_state import Dead, Event, ExpectedOutcome, Record, Reported
from tests.oracle_checks import Predictions, Row, SecondOpinion, rows_of
from tests.support.formats.metrics import sums_in
from tests.support.rows import columns
from tests.support.tasks import (
    FACTORS,
    FEW,
    LEARNERS,
    PARTITION,
    TOPICS,
    cut_at,
    fixed_input,
    one_side,
    reason_of,
    run,
    settings_of_task,
    task_settings,
)


def check_figures(got: list[Row], events: list[Event], predictions: Predictions, factors: Sequence[float]) -> None:
    """Check the prequential sums, the changes and the delays from the published predictions and outcomes alone."""
    sums: dict[tuple[str, str, float], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
    scored: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    delays: dict[str, list[int]] = defaultdict(list)
    counted: dict[str, list[Counted]] = defaultdict(list)
    corrected: set[str] = set()
    metrics = iter(got)
    for event in events:
        if isinstance(event, ExpectedOutcome) and event.outcome == "joined":
            assert event.delay_ms is not None
            assert event.example_offset is not None
            delays[event.stream].append(event.delay_ms)
            answers = {learner: predictions[event.example_offset, learner].predicted_class for learner in LEARNERS}
            counted[event.stream].append(Counted(event.example_offset, event.label or 0, event.label or 0, answers))
            for learner in LEARNERS:
                answer = predictions[event.example_offset, learner].predicted_class
                scored[event.stream, learner].append((answer, event.label or 0))
                for fading in factors:
                    add_label(
                        sums[event.stream, learner, fading], fading, event.label or 0, right=answer == event.label
                    )
        elif isinstance(event, ExpectedOutcome) and event.corrects is not None:
            corrected.add(event.stream)
            own_labels = counted[event.stream]
            which = next(k for k, example in enumerate(own_labels) if example.offset == event.corrects)
            own_labels[which] = own_labels[which]._replace(label=event.label or 0)
        elif isinstance(event, Reported):
            metric = codec.decode_one(next(metrics).value or b"")
            assert isinstance(metric, Metric)
            assert [window.fading_factor for window in metric.windows] == [*factors]
            if event.stream in corrected:
                check_corrected_windows(metric, counted[event.stream])
            else:
                exact = [sums[event.stream, event.learner, fading] for fading in factors]
                assert [sums_in(window) for window in metric.windows] == exact
                assert changes_of(metric) == changes_after(scored[event.stream, event.learner])
            for share, delay_ms in ((50, metric.delay_ms_p50), (90, metric.delay_ms_p90), (99, metric.delay_ms_p99)):
                check_percentile(delay_ms, delays[event.stream], share)


def check_corrected_windows(metric: Metric, counted: Sequence["Counted"]) -> None:
    """Check the sums of each window; after a correction, they are rounded otherwise than by definition."""
    for window in metric.windows:
        expected = sums_of(counted, metric.learner, window.fading_factor)
        assert sums_in(window) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def add_label(sums: list[float], fading: float, label: int, *, right: bool) -> None:
    """Add a label to the sums of its class, which fade."""
    column = 0 if label == 1 else 2
    sums[column] = fading * sums[column] + right
    sums[column + 1] = fading * sums[column + 1] + 1


class Counted(NamedTuple):
    """A joined example: the class of its label, the current class, and the learners' predictions."""

    offset: int
    came: int
    label: int
    answers: dict[str, int]


def sums_of(counted: Sequence[Counted], learner: str, fading: float) -> list[float]:
    """Compute the sums by definition: an example counts for its class, faded once by each later label of the class."""
    sums = [0.0, 0.0, 0.0, 0.0]
    for k, example in enumerate(counted):
        since = sum(later.came == example.label for later in counted[k + 1 :])
        column = 0 if example.label == 1 else 2
        sums[column] += fading**since * (example.answers[learner] == example.label)
        sums[column + 1] += fading**since
    return sums


def changes_of(metric: Metric) -> DetectedChange:
    """Return what a metric says about changes."""
    flagged = (metric.change_flagged, metric.change_began, metric.gmean_before)
    return DetectedChange(metric.changes, *flagged, metric.labels_to_recover)


def changes_after(scored: Sequence[tuple[int, int]]) -> DetectedChange:
    """Return the same for these predicted and true classes, computed in one step."""
    predicted, labels = np.array(scored, np.int8).reshape(-1, 2).T.copy()
    [after] = Prequential(FACTORS[:1]).run(predicted, labels)
    return ChangeMonitor("ddm", FACTORS[0]).run(predicted, labels, after, np.array([len(labels)]))[0]


def check_percentile(delay_ms: int | None, delays: list[int], share: int) -> None:
    """Check a percentile: the nearest rank, exact below 64 ms, else within 1/64; an early label counts as no delay."""
    if not delays:
        assert delay_ms is None
        return
    exact = max(0, sorted(delays)[math.ceil(Fraction(share, 100) * len(delays)) - 1])
    assert delay_ms is not None
    assert abs(delay_ms - exact) <= (exact / 64 if exact >= 64 else 0)


@FEW
@given(task_settings(), one_side(Side.EXAMPLES), one_side(Side.LABELS))
def test_task_does_what_the_model_does(
    task_settings: TaskSettings, examples: list[Record], labels: list[Record]
) -> None:
    """Every record ends in the outcome that the rules name, in merge order: nothing is lost or counted twice."""
    compare(task_settings, examples, labels)


def compare(task_settings: TaskSettings, examples: list[Record], labels: list[Record]) -> list[Event]:
    """Run both in one batch, and compare every output with the event that it should be."""
    result = run(task_settings, [(examples, labels)])
    opinion = SecondOpinion(task_settings, TOPICS, PARTITION)
    events = opinion.check(examples, labels, result.rows)
    if task_settings.predictions == "all":
        factors = task_settings.metrics.fading_factors
        check_figures(result.rows["metrics"], events, opinion.predictions, factors)
    dead = [event for event in events if isinstance(event, Dead) and event.reason.malformed]
    malformed = {(event.record.side, event.record.offset) for event in dead}
    for side, records in zip(Side, (examples, labels), strict=True):
        assert result.malformed[side] == [(side, record.offset) in malformed for record in records]
    return events


@settings(FEW, max_examples=60)
@given(
    task_settings(),
    one_side(Side.EXAMPLES),
    one_side(Side.LABELS),
    st.lists(st.builds(Room, st.integers(1, 60), st.integers(500, 30_000)), min_size=1, max_size=8),
)
def test_a_batch_never_exceeds_the_room_of_its_transaction(
    task_settings: TaskSettings, examples: list[Record], labels: list[Record], rooms: list[Room]
) -> None:
    """A transaction that is too large would time out again and again, and the task would make no progress."""
    task, number = Task(PARTITION, task_settings, TOPICS), 0
    while examples or labels:
        room = rooms[number % len(rooms)]
        number += 1
        opened = task.open(columns(examples), columns(labels))
        taken = task.fitting(opened, room)
        if sum(taken):
            outputs = task.step(columns(examples[: taken[0]]), columns(labels[: taken[1]]))
            assert outputs.records <= room.records
            assert outputs.bytes <= room.bytes
            topics = outputs.topics.values()
            assert outputs.bytes == sum(
                len(row.key or b"")
                + len(row.value or b"")
                + sum(len(name) + len(cell or b"") for name, cell in row.headers)
                for records in topics
                for row in rows_of(records)
            )
        else:  # the results of a single record are bounded by its stream only
            taken = (1, 0) if opened.merged.sides[0] == Side.EXAMPLES else (0, 1)
            task.step(columns(examples[: taken[0]]), columns(labels[: taken[1]]))
        examples, labels = examples[taken[0] :], labels[taken[1] :]


@pytest.mark.slow(6)
@pytest.mark.parametrize(("seed", "corrections"), [(1, "first"), (2, "correct")])
def test_tables_that_grow(seed: int, corrections: Corrections) -> None:
    """Thousands of ids at a time: every table of the join starts small and is rebuilt while it is in use."""
    roomy = JoinSettings(
        ttl_ms=700, max_clock_lead_ms=300, max_closed_per_stream=900, closed_ttl_ms=2_000, corrections=corrections
    )
    chosen, examples, labels = fixed_input(4_000, seed, roomy, delay_ms=400)
    events = compare(chosen, examples, labels)
    reports = [event for event in events if isinstance(event, Reported)]
    assert max(event.pending for event in reports) > 100
    assert max(event.waiting for event in reports) > 20
    rows = run(chosen, [(examples, labels)]).rows["metrics"]
    metrics = [codec.decode_one(row.value or b"") for row in rows]
    assert any(metric.changes for metric in metrics if isinstance(metric, Metric)), "the changes were compared too"
    corrected = [event for event in events if isinstance(event, ExpectedOutcome) and event.outcome == "correction"]
    closed = sum(event.corrects is not None for event in corrected)
    assert (closed > 20, len(corrected) - closed > 20) == ((corrections == "correct"),) * 2


def test_memory_stays_below_its_bound() -> None:
    """The reported memory lies between the size of the arrays and the bound."""
    roomy = JoinSettings(ttl_ms=7000, max_pending_per_stream=300, max_waiting_per_stream=90, max_closed_per_stream=900)
    chosen, examples, labels = fixed_input(4_000, 3, roomy, delay_ms=4_000)
    task = Task(PARTITION, chosen, TOPICS)
    for batch in cut_at(list(merge(examples, labels)), range(0, 8_000, 500)):
        task.step(columns(batch[0]), columns(batch[1]))
    streams = task._streams
    held = [array for stream in streams for array in stream.join.arrays().values()]
    held += task.arrays().values()
    taken, allocated = sum(array.nbytes for array in held), task.allocated_bytes
    whole = bound_of(Config.model_validate({"worker": {"max_batch_records": 500}}), chosen, 1_000)
    bound = whole.streams + whole.tables(1)
    assert bound / 20 < taken < allocated < bound


def test_streams_can_be_added() -> None:
    """A configuration with a new stream takes effect between two batches; earlier records stay dead letters."""
    after, examples, labels = fixed_input(200)
    before = after.model_copy(update={"streams": {"a": after.streams["a"]}})
    sequence = list(merge(examples, labels))
    task, opinion = Task(PARTITION, before, TOPICS), SecondOpinion(before, TOPICS, PARTITION)
    for number, batch in enumerate(cut_at(sequence, [len(sequence) // 2])):
        if number == 1:
            task.apply_settings(after)
            opinion.oracle.reconfigure(after)
        outputs = task.step(columns(batch[0]), columns(batch[1]))
        opinion.check(*batch, {topic: list(rows_of(outputs.topics[topic])) for topic in OUTPUT_TOPICS})
    assert {prediction.stream for prediction in opinion.predictions.values()} == {"a", "b"}


def correction_of(time_ms: int, id_: str, label: int, revision: int) -> Record:
    """Return a label of stream `a`, whose time is also its offset."""
    meaning = Label("a", id_, label, revision)
    return Record(Side.LABELS, time_ms, time_ms, meaning, b"a", codec.encode(meaning))


def test_a_second_correction_counts_for_another_class() -> None:
    """Computed by hand: the example counts for another class, as if its label had been that class's last one then."""
    stream = StreamSettings(features=2, champion="one", learners=LEARNERS)
    chosen = settings_of_task(
        join=JoinSettings(corrections="correct"),
        metrics=MetricSettings(every_labels=1, fading_factors=(0.5,)),
        predictions="all",
        streams={"a": stream},
        default_stream=stream,
    )
    examples = []
    for number in range(6):
        meaning = Example("a", str(number), (0.5, number / 7))
        examples.append(Record(Side.EXAMPLES, number, number + 1, meaning, b"a", codec.encode(meaning)))
    rows = [
        (0, 1, 0),
        (1, 0, 0),
        (2, 1, 0),
        (0, 0, 1),
        (3, 1, 0),
        (0, 1, 2),
        (0, 0, 2),
        (0, 1, 3),
        (4, 0, 0),
        (0, 0, 5),
    ]
    labels = [correction_of(10 + k, str(id_), label, revision) for k, (id_, label, revision) in enumerate(rows)]
    labels.append(correction_of(30, "5", 1, 0))
    result = run(chosen, [(examples, labels)])
    outcomes = [codec.decode_one(row.value or b"") for row in result.rows["outcomes"]]
    kinds = [outcome.outcome for outcome in outcomes if isinstance(outcome, Outcome)]
    assert kinds == [
        *("joined", "joined", "joined", "correction", "joined", "correction", "duplicate", "joined", "correction"),
        "joined",
    ]
    assert [reason_of(row) for row in result.rows["dead-letters"]] == ["conflicting-label"]
    metrics = [codec.decode_one(row.value or b"") for row in result.rows["metrics"]]
    windows = [m.main_window for m in metrics if isinstance(m, Metric) and m.champion]
    totals = [(window.positive_total, window.negative_total) for window in windows]
    assert totals == [
        (1.0, 0.0),
        (1.0, 1.0),  # id 1 is negative
        (1.5, 1.0),  # id 2 is positive, id 0 counts one half
        (1.5, 1.5),  # id 0 left with its half and counts one half, since a negative came after it; then id 3
        (1.75, 1.5),  # id 0 returns with the quarter that it would have without the correction; then id 4
        (1.75, 1.75),  # it left with its quarter, and two negatives came after it; then id 5
    ]
