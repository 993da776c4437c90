"""The real task against the reference join (`stream_app.verify.reference_join`), and against itself with other cuts."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stream_app.config import (
    Config,
    Corrections,
    JoinSettings,
    LearnerSettings,
    LimitSettings,
    MetricSettings,
    StreamSettings,
    TaskSettings,
)
from stream_app.config.memory_bound import bound_of
from stream_app.pipeline.degradation import Change, ChangeMonitor
from stream_app.pipeline.merge import cut
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.pipeline.prequential import Prequential
from stream_app.pipeline.task import Task
from stream_app.pipeline.transaction_bounds import Room
from stream_app.records import (
    Example,
    Header,
    Label,
    Mark,
    MarkKind,
    Metric,
    Outcome,
    Prediction,
    Reason,
    Side,
)
from stream_app.serialization import codec
from stream_app.verify.reference_join import merge
from stream_app.verify.reference_state import Event, Record, Reported, Settled
from tests.oracle_checks import Predictions, Row, SecondOpinion, rows_of
from tests.rows import columns

PARTITION = 3
TOPICS = ("eu.examples", "eu.labels")
SIDES = (Side.EXAMPLES, Side.LABELS)
FADING = 0.9
LEARNERS = {
    "one": LearnerSettings(method="areba", budget=2, hidden=(2,), scaler="standard"),
    "two": LearnerSettings(method="baseline", hidden=(2,)),
}
FEATURES = ((0.0, 1.0), (-0.0, 1.0), (0.5, -2.0), (0.5,), (1.0, 2.0, 3.0))
"""Two that differ in one bit of a sign, and other dimensions."""

IDS = ("0", "1", "12345678", "123456789", "x" * 64, "é")
"""Ids that fill a machine word, pass it, or are as long as allowed."""

MALFORMED: dict[Side, tuple[tuple[bytes | None, Reason], ...]] = {
    side: (
        (None, Reason.UNDECODABLE),
        (b"", Reason.WRONG_SCHEMA),
        (b"\x00" * 200, Reason.TOO_LARGE),
        (codec.encode(own)[:-1], Reason.UNDECODABLE),
        (codec.encode(own) + b"\x00", Reason.UNDECODABLE),
        (codec.encode(other), Reason.WRONG_SCHEMA),
        (codec.encode(replace(own, id="x" * 65)), Reason.BAD_ID),
        bad,
    )
    for side, own, other, bad in (
        (
            Side.EXAMPLES,
            Example("a", "0", (1.0, 2.0)),
            Label("a", "0", 1),
            (codec.encode(Example("a", "0", (1.0, math.nan))), Reason.NOT_FINITE),
        ),
        (
            Side.LABELS,
            Label("a", "0", 1),
            Example("a", "0", (1.0, 2.0)),
            (codec.encode(Label("a", "0", 2)), Reason.BAD_LABEL),
        ),
    )
}


UNREADABLE = frozenset({Reason.UNDECODABLE, Reason.WRONG_SCHEMA, Reason.TOO_LARGE})
"""Of these nobody can tell the stream; `BAD_ID` is one of them only where the stream has a bad name."""


# Inputs ---------------------------------------------------------------------------------------------------------------


@st.composite
def task_settings(draw: st.DrawFn) -> TaskSettings:
    """Bounds and lives so small that every one of them is reached."""

    def number(low: int, high: int) -> int:
        return draw(st.integers(low, high))

    champion = draw(st.sampled_from(["one", "two"]))
    stream = StreamSettings(features=2, champion=champion, learners=LEARNERS)
    return TaskSettings(
        application_id="test",
        join=JoinSettings(
            ttl_ms=number(1, 40),
            max_clock_lead_ms=number(0, 20),
            max_pending_per_stream=number(1, 5),
            max_waiting_per_stream=number(1, 4),
            max_waiting_bytes_per_stream=draw(st.sampled_from([1 << 26, 1 << 26, 290, 600, 900])),
            max_closed_per_stream=number(0, 6),
            closed_ttl_ms=number(0, 40),
            max_open_marks_per_stream=number(1, 3),
            corrections=draw(st.sampled_from(["first", "correct"])),
        ),
        metrics=MetricSettings(every_labels=number(1, 4), fading_factor=FADING, change_detector="ddm"),
        limits=LimitSettings(max_streams_per_task=number(1, 3), max_record_bytes=150, max_features=3),
        unknown_streams=draw(st.sampled_from(["dead-letter", "model"])),
        predictions=draw(st.sampled_from(["champion", "all"])),
        streams={"a": stream, "b": StreamSettings(champion=champion, learners=LEARNERS)},
        default_stream=StreamSettings(champion="one", learners=LEARNERS),
    )


class Draft(NamedTuple):
    """What hypothesis draws for one record; meanings differ by side."""

    kind: int
    stream: int
    id: int
    variant: int
    step_ms: int
    header: int
    revision: int = 0


DRAFTS = st.builds(
    Draft,
    kind=st.integers(0, 19),
    stream=st.sampled_from([0, 0, 0, 0, 0, 1, 1, 2, 3]),
    id=st.integers(0, 5),
    variant=st.integers(0, 19),
    step_ms=st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5, 8, -1, -4, -15, 25, 60, -1000]),
    header=st.integers(0, 9),
    revision=st.integers(0, 3),
)
TRACES: tuple[Header, ...] = (
    ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("traceparent", b"00-00000000000000000000000000000003-0000000000000004-01"),
)
HEADERS: dict[int, tuple[Header, ...]] = {
    0: TRACES[:1],
    1: (("other", None), TRACES[1], ("other", b"x")),
    2: (("traceparent", b"00-3-4-01"), ("other", b"x")),
}


def record_of(side: Side, offset: int, time_ms: int, draft: Draft) -> Record:
    """The record of a draft: mostly data, now and then a mark or garbage."""
    stream, id_ = "abcd"[draft.stream], IDS[draft.id] if draft.id < len(IDS) else str(draft.id)
    meaning: Example | Label | Mark | Reason
    if draft.kind == 0:
        value, reason = MALFORMED[side][draft.variant % len(MALFORMED[side])]
        return Record(side, offset, time_ms, reason, b"k", value, HEADERS.get(draft.header, ()))
    if draft.kind in {1, 2}:
        meaning = Mark(stream, MarkKind.ADVANCE, time_ms=10 * (draft.variant % 8))
    elif draft.kind == 3:
        meaning = Mark(stream, MarkKind.PROMOTE, learner=("one", "two", "three")[draft.variant % 3])
    elif side is Side.EXAMPLES:
        meaning = Example(stream, id_, FEATURES[max(0, draft.variant - 15)])
    else:
        meaning = Label(stream, id_, int(draft.variant > 14), draft.revision)
    value = codec.encode(meaning)
    key = (None, b"", id_.encode(), b"b")[draft.variant % 4] if draft.header == 9 else stream.encode()
    return Record(side, offset, time_ms, meaning, key, value, HEADERS.get(draft.header, ()))


@st.composite
def one_side(draw: st.DrawFn, side: Side) -> list[Record]:
    """Records of one partition: clocks stand still, go back, run ahead; offsets have gaps."""
    records = []
    now_ms = draw(st.sampled_from([0, 5, 30]))
    offset = draw(st.sampled_from([0, 7]))
    for draft in draw(st.lists(DRAFTS, min_size=draw(st.sampled_from([30, 0])), max_size=60)):
        if draft.step_ms in {25, 60, -1000} and draft.variant < 14:
            time_ms = now_ms  # such jumps, rarely
        elif draft.step_ms in {-15, -1000, 60}:
            time_ms = now_ms + draft.step_ms  # this record's clock alone
        else:
            now_ms = time_ms = max(1, now_ms + draft.step_ms)
        records.append(record_of(side, offset, time_ms, draft))
        offset += 1 + (draft.header == 2)
    return records


# Outputs --------------------------------------------------------------------------------------------------------------


@dataclass
class Run:
    """What a task made of its inputs: rows by topic, the breaker's view, and the models at the end."""

    rows: dict[str, list[Row]]
    unreadable: tuple[list[bool], list[bool]]
    models: dict[str, bytes]


def run(
    task_settings: TaskSettings,
    batches: Sequence[tuple[Sequence[Record], Sequence[Record]]],
    relay: Callable[[Task], Task] = lambda task: task,
) -> Run:
    """A fresh task, batch by batch; after each batch the one that `relay` gives goes on."""
    task = Task(PARTITION, task_settings, TOPICS)
    result = Run({topic: [] for topic in OUTPUT_TOPICS}, ([], []), {})
    for examples, labels in batches:
        outputs = task.step(columns(examples), columns(labels))
        for side in Side:
            result.unreadable[side].extend(outputs.unreadable[side].tolist())
        for topic in OUTPUT_TOPICS:
            result.rows[topic] += rows_of(outputs.topics[topic])
        task = relay(task)
    # `seen` has a row for each slot of the join, and how slots are numbered does depend on the cuts; what is in them
    # shows in what is learned from it.
    result.models = {name: array.tobytes() for name, array in task.arrays().items() if not name.endswith("/seen")}
    return result


def reason_of(row: Row) -> str:
    """The reason that a dead letter carries."""
    return dict(row.headers)["areba.reason"].decode()  # type: ignore[union-attr]


# Against the model ----------------------------------------------------------------------------------------------------


def check_figures(got: list[Row], events: list[Event], predictions: Predictions) -> None:
    """The prequential sums, the changes and the delays, from the published predictions and outcomes alone."""
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
    scored: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    delays: dict[str, list[int]] = defaultdict(list)
    counted: dict[str, list[Counted]] = defaultdict(list)
    corrected: set[str] = set()
    metrics = iter(got)
    for event in events:
        if isinstance(event, Settled) and event.outcome == "joined":
            assert event.delay_ms is not None
            assert event.example_offset is not None
            delays[event.stream].append(event.delay_ms)
            answers = {learner: predictions[event.example_offset, learner].label for learner in LEARNERS}
            counted[event.stream].append(Counted(event.example_offset, event.label or 0, event.label or 0, answers))
            for learner in LEARNERS:
                own, column = sums[event.stream, learner], 0 if event.label == 1 else 2
                answer = predictions[event.example_offset, learner].label
                right = answer == event.label
                scored[event.stream, learner].append((answer, event.label or 0))
                own[column] = FADING * own[column] + right
                own[column + 1] = FADING * own[column + 1] + 1
        elif isinstance(event, Settled) and event.corrects is not None:
            corrected.add(event.stream)
            own_labels = counted[event.stream]
            which = next(k for k, example in enumerate(own_labels) if example.offset == event.corrects)
            own_labels[which] = own_labels[which]._replace(label=event.label or 0)
        elif isinstance(event, Reported):
            metric = codec.decode_one(next(metrics).value or b"")
            assert isinstance(metric, Metric)
            own = sums[event.stream, event.learner]
            published = [
                metric.positive_correct,
                metric.positive_total,
                metric.negative_correct,
                metric.negative_total,
            ]
            if event.stream in corrected:
                assert published == pytest.approx(sums_of(counted[event.stream], event.learner), rel=1e-9, abs=1e-12)
            else:
                assert published == own
                assert changes_of(metric) == changes_after(scored[event.stream, event.learner])
            for share, delay_ms in ((50, metric.delay_ms_p50), (90, metric.delay_ms_p90), (99, metric.delay_ms_p99)):
                check_percentile(delay_ms, delays[event.stream], share)


class Counted(NamedTuple):
    """A joined example: the class that its label said, the one that holds, and what the learners had said."""

    offset: int
    came: int
    label: int
    answers: dict[str, int]


def sums_of(counted: Sequence[Counted], learner: str) -> list[float]:
    """By the definition: each example counts for its class, faded once for every label of it that came since."""
    sums = [0.0, 0.0, 0.0, 0.0]
    for k, example in enumerate(counted):
        since = sum(later.came == example.label for later in counted[k + 1 :])
        column = 0 if example.label == 1 else 2
        sums[column] += FADING**since * (example.answers[learner] == example.label)
        sums[column + 1] += FADING**since
    return sums


def changes_of(metric: Metric) -> Change:
    """What a metric says about changes."""
    flagged = (metric.change_flagged, metric.change_began, metric.gmean_before)
    return Change(metric.changes, *flagged, metric.labels_to_recover)


def changes_after(scored: Sequence[tuple[int, int]]) -> Change:
    """The same for these predicted and true classes, in one go."""
    predicted, labels = np.array(scored, np.int8).reshape(-1, 2).T.copy()
    after = Prequential(FADING).run(predicted, labels)
    return ChangeMonitor("ddm", FADING).run(predicted, labels, after, np.array([len(labels)]))[0]


def check_percentile(delay_ms: int | None, delays: list[int], share: int) -> None:
    """The nearest rank, exact below 64 ms, then within 1/64; a label before its example counts as no delay."""
    if not delays:
        assert delay_ms is None
        return
    exact = max(0, sorted(delays)[math.ceil(Fraction(share, 100) * len(delays)) - 1])
    assert delay_ms is not None
    assert abs(delay_ms - exact) <= (exact / 64 if exact >= 64 else 0)


# Hypothesis says which of its inputs failed; it has no deadline, since the first call may compile.
FEW = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@FEW
@given(task_settings(), one_side(Side.EXAMPLES), one_side(Side.LABELS))
def test_task_does_what_the_model_does(
    task_settings: TaskSettings, examples: list[Record], labels: list[Record]
) -> None:
    """Every record ends in the outcome that the rules name, in merge order: nothing is lost, nothing counted twice."""
    compare(task_settings, examples, labels)


def compare(task_settings: TaskSettings, examples: list[Record], labels: list[Record]) -> list[Event]:
    """Run both, in one batch, and hold every output against the event that it should be."""
    result = run(task_settings, [(examples, labels)])
    opinion = SecondOpinion(task_settings, TOPICS, PARTITION)
    events = opinion.check(examples, labels, result.rows)
    if task_settings.predictions == "all":
        check_figures(result.rows["metrics"], events, opinion.predictions)
    for side, records in zip(Side, (examples, labels), strict=True):
        assert result.unreadable[side] == [record.meaning in UNREADABLE for record in records]
    return events


@settings(FEW, max_examples=60)
@given(
    task_settings(),
    one_side(Side.EXAMPLES),
    one_side(Side.LABELS),
    st.lists(st.builds(Room, st.integers(1, 60), st.integers(500, 30_000)), min_size=1, max_size=8),
)
def test_what_fits_into_a_transaction_is_never_more_than_its_room(
    task_settings: TaskSettings, examples: list[Record], labels: list[Record], rooms: list[Room]
) -> None:
    """A transaction that is too large runs into its timeout, again and again: the task stands still for good."""
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
        else:  # what one record becomes has no bound but that of its stream
            taken = (1, 0) if opened.merged.sides[0] == Side.EXAMPLES else (0, 1)
            task.step(columns(examples[: taken[0]]), columns(labels[: taken[1]]))
        examples, labels = examples[taken[0] :], labels[taken[1] :]


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
    corrected = [event for event in events if isinstance(event, Settled) and event.outcome == "correction"]
    closed = sum(event.corrects is not None for event in corrected)
    assert (closed > 20, len(corrected) - closed > 20) == ((corrections == "correct"),) * 2


def test_memory_stays_below_its_bound() -> None:
    """What is allocated, as it is told, lies between what the arrays hold and the bound."""
    roomy = JoinSettings(ttl_ms=7000, max_pending_per_stream=300, max_waiting_per_stream=90, max_closed_per_stream=900)
    chosen, examples, labels = fixed_input(4_000, 3, roomy, delay_ms=4_000)
    task = Task(PARTITION, chosen, TOPICS)
    for batch in cut_at(list(merge(examples, labels)), range(0, 8_000, 500)):
        task.step(columns(batch[0]), columns(batch[1]))
    streams = task._streams
    held = [array for stream in streams for array in stream.join.arrays().values()]
    held += task.arrays().values()
    taken, allocated = sum(array.nbytes for array in held), task.allocated_bytes
    bound = bound_of(Config.model_validate({"worker": {"max_batch_records": 500}}), chosen, 1_000).streams
    assert bound / 20 < taken < allocated < bound


def test_streams_can_be_added() -> None:
    """A configuration with a new stream is taken over between two batches; what came before stays a dead letter."""
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
    """A label of stream `a`; its time is also its offset."""
    meaning = Label("a", id_, label, revision)
    return Record(Side.LABELS, time_ms, time_ms, meaning, b"a", codec.encode(meaning))


def test_a_correction_of_a_correction_and_what_it_costs_the_sums() -> None:
    """Worked by hand: the example counts for another class, as if its label had been the last of that class then."""
    stream = StreamSettings(features=2, champion="one", learners=LEARNERS)
    chosen = TaskSettings(
        application_id="test",
        join=JoinSettings(corrections="correct"),
        metrics=MetricSettings(every_labels=1, fading_factor=0.5),
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
    totals = [(m.positive_total, m.negative_total) for m in metrics if isinstance(m, Metric) and m.champion]
    assert totals == [
        (1.0, 0.0),
        (1.0, 1.0),  # id 1 is negative
        (1.5, 1.0),  # id 2 is positive, id 0 counts a half
        (1.5, 1.5),  # id 0 went with its half and counts a half, since a negative came after it; then id 3
        (1.75, 1.5),  # id 0 is back with the quarter that it would have, as if nothing had been; then id 4
        (1.75, 1.75),  # it went with its quarter, and two negatives came after it; then id 5
    ]


# Against itself -------------------------------------------------------------------------------------------------------


def cut_at(sequence: Sequence[Record], ends: Sequence[int]) -> list[tuple[list[Record], list[Record]]]:
    """The merged sequence in pieces, each piece as the two ranges that it is made of."""
    bounds = [0, *sorted(ends), len(sequence)]
    pieces = [sequence[start:end] for start, end in pairwise(bounds)]
    return [([r for r in piece if r.side == 0], [r for r in piece if r.side == 1]) for piece in pieces]


@FEW
@given(task_settings(), one_side(Side.EXAMPLES), one_side(Side.LABELS), st.data())
def test_cuts_do_not_show(
    task_settings: TaskSettings, examples: list[Record], labels: list[Record], data: st.DataObject
) -> None:
    """A batch ends where the clock and the network say; a restored task re-cuts. No byte and no weight may differ."""
    sequence = list(merge(examples, labels))
    ends = data.draw(st.lists(st.integers(0, len(sequence)), max_size=12))
    assert run(task_settings, cut_at(sequence, ends)) == run(task_settings, [(examples, labels)])


@pytest.mark.parametrize("corrections", ["first", "correct"])
def test_one_record_a_batch(corrections: Corrections) -> None:
    """The smallest cut there is, on a fixed input that reaches every kind of output."""
    chosen, examples, labels = fixed_input(120, join=SMALL.model_copy(update={"corrections": corrections}))
    sequence = list(merge(examples, labels))
    whole = run(chosen, [(examples, labels)])
    assert all(whole.rows[topic] for topic in OUTPUT_TOPICS)
    assert run(chosen, cut_at(sequence, range(len(sequence)))) == whole


@settings(FEW, max_examples=30)
@given(st.integers(1, 59), st.lists(st.integers(0, 120), max_size=8))
def test_a_promotion_holds_from_its_record_on(place: int, ends: list[int]) -> None:
    """One record decides who answers; an outcome names who answered then, however late its label comes."""
    stream = StreamSettings(features=2, champion="one", learners=LEARNERS)
    chosen = TaskSettings(
        application_id="test",
        metrics=MetricSettings(every_labels=10),
        streams={"a": stream, "b": stream},
        default_stream=stream,
    )
    examples, labels = [], []
    for number in range(60):
        meaning: Example | Mark = Example("a", str(number), (number % 7 / 7, number % 2))
        if number == place:
            meaning = Mark("a", MarkKind.PROMOTE, learner="two")
        time_ms = 10 * number + 1
        examples.append(Record(Side.EXAMPLES, number, time_ms, meaning, b"a", codec.encode(meaning), ()))
        label = Label("a", str(number), number % 2)
        labels.append(Record(Side.LABELS, number, time_ms + 205, label, b"a", codec.encode(label), ()))
    whole = run(chosen, [(examples, labels)])
    predictions = [codec.decode_one(row.value or b"") for row in whole.rows["predictions"]]
    outcomes = [codec.decode_one(row.value or b"") for row in whole.rows["outcomes"]]
    wanted = [(str(n), "one" if n < place else "two") for n in range(60) if n != place]
    assert [(p.id, p.learner) for p in predictions if isinstance(p, Prediction) and p.champion] == wanted
    assert [(o.id, o.learner) for o in outcomes if isinstance(o, Outcome)] == wanted
    sequence = list(merge(examples, labels))
    assert run(chosen, cut_at(sequence, ends)) == whole


@pytest.mark.parametrize("example_chunk", [1, 7, 1000])
@pytest.mark.parametrize("label_chunk", [1, 7, 1000])
def test_arrival_does_not_show(example_chunk: int, label_chunk: int) -> None:
    """The merge waits for the side that is behind: how much came at once on either side changes nothing."""
    chosen, examples, labels = fixed_input(400)
    batches = list(arriving((examples, labels), (example_chunk, label_chunk)))
    assert sum(len(batch[0]) + len(batch[1]) for batch in batches) == len(examples) + len(labels)
    assert run(chosen, batches) == run(chosen, [(examples, labels)])


def arriving(
    sides: tuple[list[Record], list[Record]], chunks: tuple[int, int]
) -> Iterator[tuple[list[Record], list[Record]]]:
    """Batches as the worker cuts them, when each side comes in chunks of its own."""
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
        assert sum(taken) > 0, "both heads are known, or a side is at its end: something must go on"
        yield waiting[0][: taken[0]], waiting[1][: taken[1]]
        for side in SIDES:
            del waiting[side][: taken[side]]


SMALL = JoinSettings(ttl_ms=60, max_clock_lead_ms=20, max_pending_per_stream=12, max_closed_per_stream=30)


def fixed_input(
    n: int, seed: int = 7, join: JoinSettings = SMALL, delay_ms: int = 12
) -> tuple[TaskSettings, list[Record], list[Record]]:
    """A seeded pair of streams with everything in it: labels late and early, repeats, marks, garbage."""
    random = np.random.default_rng(seed)
    stream = StreamSettings(features=2, champion="one", learners=LEARNERS)
    chosen = TaskSettings(
        application_id="test",
        join=join,
        metrics=MetricSettings(every_labels=5, fading_factor=FADING, change_detector="ddm"),
        limits=LimitSettings(max_record_bytes=150, max_features=3),
        predictions="all",
        streams={"a": stream, "b": stream},
        default_stream=stream,
    )
    sides: list[list[Record]] = []
    for side, mean_delay_ms in zip(SIDES, (0, delay_ms), strict=True):
        times = (np.cumsum(random.integers(0, 5, n)) + random.integers(-delay_ms, 2 * mean_delay_ms + 1, n)).clip(0)
        records = []
        for number, time_ms in enumerate(times.tolist()):
            kind = int(random.integers(4)) if random.random() < 0.05 else 10
            id_, variant = number // 3 + int(random.integers(3)), int(random.integers(20))
            draft = Draft(kind, number % 2, id_, variant, 0, number % 10, revision=7 * number % 4)
            records.append(record_of(side, number, time_ms, draft))
        sides.append(records)
    return chosen, sides[0], sides[1]
