"""The times and bounds of the join change while a task runs: the task, the reference join and a restore agree."""

from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from stream_app.config import JoinSettings, TaskSettings, changes
from stream_app.join.constants import MAX_EVICTIONS
from stream_app.pipeline.outputs import OUTPUT_TOPICS, Outputs
from stream_app.pipeline.task import Task
from stream_app.pipeline.transaction_bounds import Room
from stream_app.records import Example, Label, Mark, MarkKind, Outcome, Side
from stream_app.serialization import codec
from stream_app.snapshot import segments
from stream_app.verify.reference_merge import merge
from stream_app.verify.reference_state import Record
from tests.oracle_checks import SecondOpinion, rows_of
from tests.support.rows import columns
from tests.support.snapshots import Changelog
from tests.support.tasks import FEW, PARTITION, TOPICS, cut_at, fixed_input, one_side, reason_of, task_settings

NOTHING = columns([])


def check(opinion: SecondOpinion, task: Task, batch: tuple[list[Record], list[Record]]) -> Outputs:
    """Run a batch, and compare its outputs with the reference join."""
    outputs = task.step(columns(batch[0]), columns(batch[1]))
    opinion.check(*batch, {topic: list(rows_of(outputs.topics[topic])) for topic in OUTPUT_TOPICS})
    return outputs


def with_join(before: TaskSettings, join: JoinSettings) -> TaskSettings:
    """Return the settings with another join."""
    return before.model_copy(update={"join": join})


@pytest.mark.slow(20)
@settings(FEW, max_examples=150)
@given(
    task_settings(),
    st.lists(task_settings().map(lambda drawn: drawn.join), min_size=1, max_size=3),
    one_side(Side.EXAMPLES),
    one_side(Side.LABELS),
    st.data(),
)
def test_any_change_at_any_record(
    first: TaskSettings, joins: list[JoinSettings], examples: list[Record], labels: list[Record], data: st.DataObject
) -> None:
    """All bounds at once, up and down, between any two records; with other cuts and snapshots the bits are the same."""
    sequence = list(merge(examples, labels))
    ends = sorted(data.draw(st.lists(st.integers(0, len(sequence)), min_size=len(joins), max_size=len(joins))))
    parts = [sequence[start:end] for start, end in zip([0, *ends], [*ends, len(sequence)], strict=True)]
    chosen = [first, *(with_join(first, join) for join in joins)]
    task, opinion = Task(PARTITION, first, TOPICS), SecondOpinion(first, TOPICS, PARTITION)
    cut, changelog = Task(PARTITION, first, TOPICS), Changelog(first)
    whole_rows, cut_rows = [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "CLOSED_ROWS", 3)
        for settings_, part in zip(chosen, parts, strict=True):
            if settings_ is not first:
                assert not changes(task.settings, settings_, task.running()).refused
                task.apply_settings(settings_)
                opinion.oracle.reconfigure(settings_)
                cut.apply_settings(settings_)
                cut = changelog.relay(cut)
            for batch in cut_at(part, []):
                outputs = check(opinion, task, batch)
                whole_rows += [rows_of(outputs.topics[topic]) for topic in OUTPUT_TOPICS]
            for batch in cut_at(part, data.draw(st.lists(st.integers(0, len(part)), max_size=3))):
                outputs = cut.step(columns(batch[0]), columns(batch[1]))
                cut_rows += [rows_of(outputs.topics[topic]) for topic in OUTPUT_TOPICS]
                cut = changelog.relay(cut)
    for number in range(len(OUTPUT_TOPICS)):
        found, wanted = (
            [row for rows in some[number :: len(OUTPUT_TOPICS)] for row in rows] for some in (cut_rows, whole_rows)
        )
        assert found == wanted
    assert cut.model_digests() == task.model_digests()


@pytest.mark.slow(10)
@settings(FEW, max_examples=60)
@given(
    task_settings(),
    task_settings(),
    one_side(Side.EXAMPLES),
    one_side(Side.LABELS),
    st.lists(st.builds(Room, st.integers(1, 60), st.integers(500, 30_000)), min_size=1, max_size=8),
)
def test_examples_that_a_lower_bound_closes_fit_into_a_transaction(
    before: TaskSettings, other: TaskSettings, examples: list[Record], labels: list[Record], rooms: list[Room]
) -> None:
    """A transaction that is too large at the moment of the change would time out again and again."""
    task, number = Task(PARTITION, before, TOPICS), 0
    while examples or labels:
        room = rooms[number % len(rooms)]
        number += 1
        task.apply_settings(with_join(before, (before, other)[number % 2].join))
        opened = task.open(columns(examples), columns(labels))
        taken = task.fitting(opened, room)
        if sum(taken):
            outputs = task.step(columns(examples[: taken[0]]), columns(labels[: taken[1]]))
            assert outputs.records <= room.records
            assert outputs.bytes <= room.bytes
        else:  # the results of a single record are bounded by its stream only
            taken = (1, 0) if opened.merged.sides[0] == Side.EXAMPLES else (0, 1)
            task.step(columns(examples[: taken[0]]), columns(labels[: taken[1]]))
        examples, labels = examples[taken[0] :], labels[taken[1] :]


def record(side: Side, offset: int, time_ms: int, meaning: Example | Label | Mark) -> Record:
    """Return a record of stream `a`."""
    return Record(side, offset, time_ms, meaning, b"a", codec.encode(meaning))


def example(number: int, time_ms: int) -> Record:
    """Return an example, whose offset is its number."""
    return record(Side.EXAMPLES, number, time_ms, Example("a", str(number), (0.5, number % 7 - 3.0)))


def label(number: int, time_ms: int, class_: int = 1, revision: int = 0) -> Record:
    """Return a label for the example with this number."""
    return record(Side.LABELS, number + 1_000_000 * revision, time_ms, Label("a", str(number), class_, revision))


def settings_of(join: JoinSettings) -> TaskSettings:
    """Return settings with two learners, of which all predictions are published."""
    return with_join(fixed_input(1)[0], join)


DAY_MS = 86_400_000


def run_changed(first: JoinSettings, parts: Sequence[tuple[JoinSettings, Sequence[Record]]]) -> list[Outputs]:
    """Run each part under its settings, against the reference join."""
    before = settings_of(first)
    task, opinion = Task(PARTITION, before, TOPICS), SecondOpinion(before, TOPICS, PARTITION)
    results = []
    for join, part in parts:
        task.apply_settings(with_join(before, join))
        opinion.oracle.reconfigure(with_join(before, join))
        sides = ([one for one in part if one.side is side] for side in Side)
        examples, labels = sides
        results.append(check(opinion, task, (examples, labels)))
    return results


def outcomes_of(outputs: Outputs) -> list[str]:
    """Return the kinds of outcomes."""
    found = (codec.decode_one(row.value or b"") for row in rows_of(outputs.topics["outcomes"]))
    return [one.outcome for one in found if isinstance(one, Outcome)]


def test_a_longer_ttl_keeps_what_still_waits() -> None:
    """Labels three days late are lost under one day; after the change the same delay is joined."""
    short, long = JoinSettings(ttl_ms=DAY_MS), JoinSettings(ttl_ms=4 * DAY_MS)
    now = 20_000 * DAY_MS
    first = [example(number, now + number) for number in range(10)]
    results = run_changed(
        short,
        [
            (short, first),
            (long, [example(10, now + 2 * DAY_MS), *(label(number, now + 3 * DAY_MS) for number in range(11))]),
        ],
    )
    assert outcomes_of(results[1]) == ["joined"] * 11


def test_a_shorter_ttl_closes_the_rest_with_the_next_record() -> None:
    """All that is older than the new time to live ends with the next record of the stream, in one transaction."""
    long, short = JoinSettings(ttl_ms=4 * DAY_MS), JoinSettings(ttl_ms=DAY_MS)
    now = 20_000 * DAY_MS
    parts = [
        (long, [*(example(number, now) for number in range(20)), example(20, now + 2 * DAY_MS)]),
        (short, [example(21, now + 2 * DAY_MS + 1)]),
    ]
    assert [outcomes_of(result) for result in run_changed(long, parts)] == [[], ["unlabelled"] * 20]


def run_relayed(join: JoinSettings, parts: Sequence[Sequence[Record]]) -> list[Outputs]:
    """Run each part against the reference join, with a restore after it."""
    chosen = settings_of(join)
    task, opinion, changelog = (
        Task(PARTITION, chosen, TOPICS),
        SecondOpinion(chosen, TOPICS, PARTITION),
        Changelog(chosen),
    )
    results = []
    for part in parts:
        examples, labels = ([one for one in part if one.side is side] for side in Side)
        results.append(check(opinion, task, (examples, labels)))
        task = changelog.relay(task)
    return results


def pair(offset: int, to_ms: int, time_ms: int) -> list[Record]:
    """Return a pair of `advance` marks."""
    mark = Mark("a", MarkKind.ADVANCE, time_ms=to_ms)
    return [record(side, offset, time_ms, mark) for side in Side]


THREE = JoinSettings(ttl_ms=1_000, max_clock_lead_ms=0, max_closings_per_record=3)


def test_what_has_expired_is_closed_in_steps() -> None:
    """A record that closed five million examples would be a transaction of minutes; what is left may still join."""
    first = [*(example(number, 1) for number in range(8)), label(100, 1), label(101, 1)]
    results = run_relayed(
        THREE,
        [
            first,
            [example(10, 5_000)],
            [label(7, 5_000)],
            [example(11, 5_000)],
            [example(12, 5_000)],
            [example(13, 5_000)],
        ],
    )
    assert [outcomes_of(result) for result in results] == [
        [],
        ["unlabelled"] * 3,
        ["unlabelled"] * 3 + ["joined"],
        ["unlabelled"],
        [],
        [],
    ]
    assert [len(result.topics["dead-letters"]) for result in results] == [0, 0, 0, 2, 0, 0]


def test_the_records_after_a_mark_close_what_it_leaves() -> None:
    """An operator who closes a stream up to a time must not wait for the time to live of each example."""
    long = THREE.model_copy(update={"ttl_ms": DAY_MS})
    results = run_relayed(
        long,
        [
            [*(example(number, 10 * number + 1) for number in range(9)), *pair(50, 71, 100)],
            [example(9, 5), example(10, 200)],  # the first of them has a time that the marks still close
            [label(6, 200), example(11, 60)],  # nothing of that is left when this example comes
            [example(12, 200)],
            [label(11, 200), label(8, 200)],
        ],
    )
    assert [outcomes_of(result) for result in results] == [
        ["unlabelled"] * 3,
        ["unlabelled"] * 6,
        [],
        [],
        ["joined"] * 2,
    ]
    late = [codec.decode_one(row.value or b"") for row in rows_of(results[2].topics["dead-letters"])]
    assert [one.id for one in late if isinstance(one, Label)] == ["6"]
    (letter,) = rows_of(results[2].topics["dead-letters"])
    assert b"advance mark" in (dict(letter.headers)["__connect.errors.exception.message"] or b"")


def test_a_quiet_stream_is_closed_by_the_same_marks_again() -> None:
    """Without further records, the operator's marks are the only records that can close the rest."""
    long = THREE.model_copy(update={"ttl_ms": DAY_MS})
    parts = [[example(number, 1) for number in range(8)], *(pair(50 + number, 1, 100) for number in range(4))]
    assert [len(outcomes_of(result)) for result in run_relayed(long, parts)] == [0, 3, 3, 2, 0]


@pytest.mark.slow(8)
def test_a_lower_bound_is_reached_in_steps() -> None:
    """One record evicts at most `MAX_EVICTIONS`, in the task and in the reference join alike: examples and labels."""
    count = MAX_EVICTIONS + 500
    wide = JoinSettings(max_waiting_per_stream=count)
    narrow = JoinSettings(max_pending_per_stream=5, max_waiting_per_stream=5)
    results = run_changed(
        wide,
        [
            (wide, [example(number, 1_000) for number in range(count)]),
            (wide, [label(number, 1_000) for number in range(count, 2 * count)]),
            (narrow, [example(2 * count, 1_000), label(2 * count + 1, 1_000)]),
            (narrow, [example(2 * count + 2, 1_000), label(2 * count + 3, 1_000)]),
        ],
    )
    assert [len(outcomes_of(result)) for result in results] == [0, 0, MAX_EVICTIONS, 497]
    assert [len(result.topics["dead-letters"]) for result in results] == [0, 0, MAX_EVICTIONS, 497]


def test_fewer_closed_ids_forget_the_oldest_at_once() -> None:
    """A label for an id that is still remembered is late; for an id that was forgotten it waits for an example."""
    many, few = JoinSettings(ttl_ms=10, max_clock_lead_ms=0), JoinSettings(ttl_ms=10, max_closed_per_stream=3)
    few = few.model_copy(update={"max_clock_lead_ms": 0})
    later = [label(number, 1_002) for number in range(10)]
    results = run_changed(
        many,
        [
            (many, [*(example(number, 1) for number in range(10)), example(10, 1_000)]),
            (few, [*later, example(11, 2_000)]),
        ],
    )
    letters = [reason_of(row) for row in rows_of(results[1].topics["dead-letters"])]
    assert letters == ["late-label"] * 3 + ["orphan-label"] * 7


def test_corrections_begin_with_what_is_joined_from_then_on() -> None:
    """What was joined before cannot be corrected: the figures do not know what the learners had predicted."""
    first, correct = JoinSettings(), JoinSettings(corrections="correct")
    joined = [one for number in range(6) for one in (example(number, 1_000), label(number, 1_000, number % 2))]
    again = [label(1, 1_001, 0, revision=2), example(7, 1_002), label(7, 1_002, 1), label(7, 1_003, 0, revision=1)]
    results = run_changed(first, [(first, joined), (correct, again)])
    assert outcomes_of(results[1]) == ["joined", "correction"]
    assert [reason_of(row) for row in rows_of(results[1].topics["dead-letters"])] == ["conflicting-label"]
    back = run_changed(
        correct, [(correct, joined), (first, [label(0, 1_001, 1, 2)]), (correct, [label(1, 1_002, 0, 2)])]
    )
    assert [reason_of(row) for result in back[1:] for row in rows_of(result.topics["dead-letters"])] == [
        "conflicting-label"
    ] * 2


def test_fewer_open_marks_drop_the_oldest() -> None:
    """A mark that was dropped has no second mark; the newest still have theirs."""
    wide = JoinSettings(max_open_marks_per_stream=9)
    narrow = JoinSettings(max_open_marks_per_stream=2)
    marks = [record(Side.EXAMPLES, 10 + n, 1, Mark("a", MarkKind.ADVANCE, time_ms=100 + n)) for n in range(5)]
    second = [record(Side.LABELS, n, 1, Mark("a", MarkKind.ADVANCE, time_ms=100 + n)) for n in range(5)]
    results = run_changed(wide, [(wide, [example(0, 50), *marks]), (narrow, second[:1]), (narrow, second[4:])])
    assert [outcomes_of(result) for result in results] == [[], [], ["unlabelled"]]
