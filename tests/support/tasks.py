"""Inputs of a task as Hypothesis draws them, and the task's outputs for them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from stream_app.config import (
    Config,
    JoinSettings,
    LearnerSettings,
    LimitSettings,
    MetricSettings,
    StreamSettings,
    TaskSettings,
)
from stream_app.config.settings import ApplicationSettings
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.pipeline.task import Task
from stream_app.records import (
    Example,
    Header,
    Label,
    Mark,
    MarkKind,
    Reason,
    Side,
)
from stream_app.serialization import codec
from stream_app.serialization.erased_ids import id_digest
from stream_app.verify.reference_state import Record
from tests.oracle_checks import Row, rows_of
from tests.support.rows import columns

PARTITION = 3

TOPICS = ("eu.examples", "eu.labels")

SIDES = (Side.EXAMPLES, Side.LABELS)

FACTORS = (0.9, 1.0)

LEARNERS = {
    "one": LearnerSettings(method="areba", budget=2, hidden=(2,), scaler="standard"),
    "two": LearnerSettings(method="baseline", hidden=(2,)),
}

FEATURES = ((0.0, 1.0), (-0.0, 1.0), (0.5, -2.0), (0.5,), (1.0, 2.0, 3.0))
"""Features: two vectors that differ in the bit of a sign, and other dimensions."""

IDS = ("0", "1", "12345678", "123456789", "x" * 64, "é")
"""Ids that fill a machine word, exceed it, or are as long as allowed."""

MALFORMED: dict[Side, tuple[tuple[bytes | None, Reason | None], ...]] = {
    side: (
        (None, None),
        (b"", Reason.WRONG_SCHEMA),
        (b"\x00" * 200, Reason.TOO_LARGE),
        (codec.encode(own)[:-1], Reason.UNDECODABLE),
        (codec.encode(own) + b"\x00", Reason.UNDECODABLE),
        (codec.encode(other), Reason.WRONG_SCHEMA),
        (codec.encode_unchecked(replace(own, id="x" * 65)), Reason.BAD_ID),
        bad,
    )
    for side, own, other, bad in (
        (
            Side.EXAMPLES,
            Example("a", "0", (1.0, 2.0)),
            Label("a", "0", 1),
            (codec.encode_unchecked(Example("a", "0", (1.0, math.nan))), Reason.NOT_FINITE),
        ),
        (
            Side.LABELS,
            Label("a", "0", 1),
            Example("a", "0", (1.0, 2.0)),
            (codec.encode_unchecked(Label("a", "0", 2)), Reason.BAD_LABEL),
        ),
    )
}


def settings_of_task(**chosen: object) -> TaskSettings:
    """Return the settings of a task: `chosen` by name, and else what a worker has without a configuration file."""
    return TaskSettings(**{**dict(Config(application=ApplicationSettings(id="test")).task_settings()), **chosen})


@st.composite
def task_settings(draw: st.DrawFn) -> TaskSettings:
    """Draw settings with limits and times so small that every one of them is reached."""

    def number(low: int, high: int) -> int:
        return draw(st.integers(low, high))

    champion = draw(st.sampled_from(["one", "two"]))
    stream = StreamSettings(features=2, champion=champion, learners=LEARNERS)
    return settings_of_task(
        join=JoinSettings(
            ttl_ms=number(1, 40),
            max_clock_lead_ms=number(0, 20),
            max_pending_per_stream=number(1, 5),
            max_waiting_per_stream=number(1, 4),
            max_waiting_bytes_per_stream=draw(st.sampled_from([1 << 26, 1 << 26, 290, 600, 900])),
            max_closings_per_record=draw(st.sampled_from([100_000, 100_000, 2, 3])),
            max_closed_per_stream=number(0, 6),
            max_table_bytes_per_task=draw(st.sampled_from([1 << 28, 1 << 28, 1 << 28, 2_000, 6_000])),
            closed_ttl_ms=number(0, 40),
            max_open_marks_per_stream=number(1, 3),
            corrections=draw(st.sampled_from(["first", "correct"])),
        ),
        metrics=MetricSettings(
            every_labels=number(1, 4),
            fading_factors=draw(st.sampled_from([FACTORS[:1], FACTORS])),
            change_detector="ddm",
        ),
        limits=LimitSettings(max_streams_per_task=number(1, 3), max_record_bytes=150, max_features=3),
        unknown_streams=draw(st.sampled_from(["dead-letter", "model"])),
        predictions=draw(st.sampled_from(["champion", "all"])),
        pass_headers=draw(st.sampled_from([(), ("tenant",), ("other", "tenant")])),
        streams={"a": stream, "b": StreamSettings(champion=champion, learners=LEARNERS)},
        default_stream=StreamSettings(champion="one", learners=LEARNERS),
    )


class Draft(NamedTuple):
    """The values that Hypothesis draws for one record; their meaning differs by side."""

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
    3: (("tenant", b"a"), ("other", b"y")),
    4: (("tenant", b"x" * 300), ("tenant", b"b"), TRACES[0]),
    5: (("other", b"x" * 255), ("tenant", None)),
}


def record_of(side: Side, offset: int, time_ms: int, draft: Draft) -> Record:
    """Return the record of a draft: mostly data, sometimes a mark or garbage."""
    stream, id_ = "abcd"[draft.stream], IDS[draft.id] if draft.id < len(IDS) else str(draft.id)
    meaning: Example | Label | Mark
    if draft.kind == 0:
        value, reason = MALFORMED[side][draft.variant % len(MALFORMED[side])]
        return Record(side, offset, time_ms, reason, b"k", value, HEADERS.get(draft.header, ()))
    if draft.kind in {1, 2}:
        meaning = Mark(stream, MarkKind.ADVANCE, time_ms=10 * (draft.variant % 8))
    elif draft.kind == 3:
        thresholds = (("alerts", 0.4), ("score", 0.5), ("majority", None), ("costs", None))
        kind, number = thresholds[draft.variant // 3 % 4]
        meaning = Mark(stream, MarkKind.PROMOTE, learner=("one", "two", "three")[draft.variant % 3])
        if draft.id % 2:
            meaning = Mark(stream, MarkKind.DECIDE, threshold_kind=kind, threshold=number)
    elif draft.kind == 4:
        erased = {id_, IDS[draft.variant % len(IDS)]}
        meaning = Mark(stream, MarkKind.ERASE, digests="".join(id_digest(stream, each) for each in sorted(erased)))
    elif side is Side.EXAMPLES:
        meaning = Example(stream, id_, FEATURES[max(0, draft.variant - 15)])
    else:
        meaning = Label(stream, id_, int(draft.variant > 14), draft.revision)
    value = codec.encode(meaning)
    key = (None, b"", id_.encode(), b"b")[draft.variant % 4] if draft.header == 9 else stream.encode()
    return Record(side, offset, time_ms, meaning, key, value, HEADERS.get(draft.header, ()))


@st.composite
def one_side(draw: st.DrawFn, side: Side) -> list[Record]:
    """Draw records of one partition: clocks stop, go back and run ahead; offsets have gaps."""
    records = []
    now_ms = draw(st.sampled_from([0, 5, 30]))
    offset = draw(st.sampled_from([0, 7]))
    for draft in draw(st.lists(DRAFTS, min_size=draw(st.sampled_from([30, 0])), max_size=60)):
        if draft.step_ms in {25, 60, -1000} and draft.variant < 14:
            time_ms = now_ms  # rare jumps
        elif draft.step_ms in {-15, -1000, 60}:
            time_ms = now_ms + draft.step_ms  # only this record's clock
        else:
            now_ms = time_ms = max(1, now_ms + draft.step_ms)
        records.append(record_of(side, offset, time_ms, draft))
        offset += 1 + (draft.header == 2)
    return records


@dataclass
class Run:
    """The results of a task: rows by topic, the breaker's view, and the models at the end."""

    rows: dict[str, list[Row]]
    malformed: tuple[list[bool], list[bool]]
    models: dict[str, bytes]


def run(
    task_settings: TaskSettings,
    batches: Sequence[tuple[Sequence[Record], Sequence[Record]]],
    relay: Callable[[Task], Task] = lambda task: task,
) -> Run:
    """Run a new task batch by batch; after each batch the task that `relay` returns continues."""
    task = Task(PARTITION, task_settings, TOPICS)
    result = Run({topic: [] for topic in OUTPUT_TOPICS}, ([], []), {})
    for examples, labels in batches:
        outputs = task.step(columns(examples), columns(labels))
        for side in Side:
            result.malformed[side].extend(outputs.judged[side].malformed.tolist())
        for topic in OUTPUT_TOPICS:
            result.rows[topic] += rows_of(outputs.topics[topic])
        task = relay(task)
    # `seen` has a row for each slot of the join, and how slots are numbered does depend on the cuts; what is in them
    # shows in what is learned from it.
    result.models = {name: array.tobytes() for name, array in task.arrays().items() if not name.endswith("/seen")}
    return result


def reason_of(row: Row) -> str:
    """Return the reason that a dead letter carries."""
    return dict(row.headers)["areba.reason"].decode()  # type: ignore[union-attr]


# Hypothesis reports which of its inputs failed; it has no deadline, since the first call may compile.
FEW = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def cut_at(sequence: Sequence[Record], ends: Sequence[int]) -> list[tuple[list[Record], list[Record]]]:
    """Cut the merged sequence into pieces, each given as its ranges of both inputs."""
    bounds = [0, *sorted(ends), len(sequence)]
    pieces = [sequence[start:end] for start, end in pairwise(bounds)]
    return [([r for r in piece if r.side == 0], [r for r in piece if r.side == 1]) for piece in pieces]


SMALL = JoinSettings(ttl_ms=60, max_clock_lead_ms=20, max_pending_per_stream=12, max_closed_per_stream=30)


def fixed_input(
    n: int, seed: int = 7, join: JoinSettings = SMALL, delay_ms: int = 12
) -> tuple[TaskSettings, list[Record], list[Record]]:
    """Return a seeded pair of inputs with every case: labels late and early, repeats, marks, garbage."""
    random = np.random.default_rng(seed)
    stream = StreamSettings(features=2, champion="one", learners=LEARNERS)
    chosen = settings_of_task(
        join=join,
        metrics=MetricSettings(every_labels=5, fading_factors=FACTORS, change_detector="ddm"),
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
            kind = int(random.integers(5)) if random.random() < 0.05 else 10
            id_, variant = number // 3 + int(random.integers(3)), int(random.integers(20))
            draft = Draft(kind, number % 2, id_, variant, 0, number % 10, revision=7 * number % 4)
            records.append(record_of(side, number, time_ms, draft))
        sides.append(records)
    return chosen, sides[0], sides[1]
