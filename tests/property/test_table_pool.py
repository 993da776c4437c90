"""The pool of a task's tables: streams give up the same wherever batches are cut, and only what is above the level."""

from collections.abc import Sequence

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from stream_app.config import JoinSettings, LimitSettings, StreamSettings, TaskSettings
from stream_app.config.table_bytes import interval_of, row_bytes
from stream_app.pipeline import table_pool
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.pipeline.table_pool import level_of
from stream_app.pipeline.task import Task
from stream_app.records import Example, Label, Outcome, Side
from stream_app.serialization import codec
from stream_app.snapshot.format import pack
from stream_app.verify.reference_merge import merge
from stream_app.verify.reference_state import Dead, Event, ExpectedOutcome, Record
from tests.oracle_checks import DiffersError, Row, SecondOpinion, rows_of
from tests.support.rows import columns
from tests.support.snapshots import Changelog
from tests.support.tasks import FEW, LEARNERS, PARTITION, TOPICS, cut_at, fixed_input, run, settings_of_task

ROOMY = JoinSettings(ttl_ms=100_000, max_clock_lead_ms=300, closed_ttl_ms=100_000)


def with_pool(bound: int, join: JoinSettings = ROOMY) -> JoinSettings:
    """Return the settings with another bound of the pool."""
    return join.model_copy(update={"max_table_bytes_per_task": bound})


def opinion_of(chosen: TaskSettings, batches: Sequence[tuple[list[Record], list[Record]]]) -> list[Event]:
    """Run a task and the reference join over batches, compare all outputs, and return the events."""
    task, opinion = Task(PARTITION, chosen, TOPICS), SecondOpinion(chosen, TOPICS, PARTITION)
    events: list[Event] = []
    for batch in batches:
        outputs = task.step(columns(batch[0]), columns(batch[1]))
        events += opinion.check(*batch, {topic: list(rows_of(outputs.topics[topic])) for topic in OUTPUT_TOPICS})
    return events


@pytest.mark.parametrize(("records", "bound", "sizes"), [(250, 9_000, (1, 64)), (500, 1 << 17, (7, 64))])
@pytest.mark.parametrize("corrections", ["first", "correct"])
def test_neither_cuts_nor_restores_matter_to_a_full_pool(
    records: int, bound: int, sizes: Sequence[int], corrections: str
) -> None:
    """Restores cut batches elsewhere: an eviction at another record would be another output."""
    join = with_pool(bound, ROOMY.model_copy(update={"corrections": corrections}))
    chosen, examples, labels = fixed_input(records, join=join, delay_ms=300)
    sequence = list(merge(examples, labels))
    whole = run(chosen, [(examples, labels)])
    for every in sizes:
        assert run(chosen, cut_at(sequence, range(0, len(sequence), every)), Changelog(chosen).relay) == whole
    events = opinion_of(chosen, [(examples, labels)])
    evicted = [event for event in events if isinstance(event, ExpectedOutcome) and event.outcome == "evicted"]
    buried = [event for event in events if isinstance(event, Dead) and "max_table_bytes_per_task" in event.explanation]
    assert {event.stream for event in evicted} == {"a", "b"}
    assert {event.reason.text for event in buried} >= {"late-label"}


def example(stream: str, number: int, time_ms: int) -> Record:
    """Return an example of a stream, whose offset is its time."""
    meaning = Example(stream, str(number), (0.5, number % 7 - 3.0))
    return Record(Side.EXAMPLES, time_ms, time_ms, meaning, stream.encode(), codec.encode(meaning))


def label(stream: str, number: int, time_ms: int) -> Record:
    """Return a label, whose offset is its time."""
    meaning = Label(stream, str(number), number % 2)
    return Record(Side.LABELS, time_ms, time_ms, meaning, stream.encode(), codec.encode(meaning))


def two_streams(bound: int, streams: int = 2) -> TaskSettings:
    """Return the settings of two streams with two features and a pool."""
    stream = StreamSettings(features=2, champion="one", learners=LEARNERS)
    return settings_of_task(
        join=with_pool(bound),
        limits=LimitSettings(max_streams_per_task=streams, max_record_bytes=150, max_features=3),
        predictions="all",
        streams={"quiet": stream, "noisy": stream},
        default_stream=stream,
    )


def of_stream(rows: Sequence[Row], stream: str) -> list[Row]:
    """Return the rows of a stream."""
    return [row for row in rows if row.key == stream.encode()]


def test_within_its_share_a_stream_depends_on_no_other() -> None:
    """One stream without labels must not take away what another one waits for."""
    pending = row_bytes(two_streams(1).streams["quiet"], two_streams(1), 2).pending
    chosen = two_streams(2 * 20 * pending)
    quiet = [example("quiet", number, 10 * number + 1) for number in range(20)]
    quiet_labels = [label("quiet", number, 10 * number + 5_000) for number in range(20)]
    noisy = [example("noisy", number, 2 * number + 2) for number in range(900)]
    alone = run(chosen, [(quiet, quiet_labels)])
    together = run(chosen, [(sorted([*quiet, *noisy], key=lambda record: record.time_ms), quiet_labels)])
    for topic in OUTPUT_TOPICS:
        found = of_stream(together.rows[topic], "quiet")
        assert found == of_stream(alone.rows[topic], "quiet")
    outcomes = [codec.decode_one(row.value or b"") for row in together.rows["outcomes"]]
    ends = [(one.stream, one.outcome) for one in outcomes if isinstance(one, Outcome)]
    assert ends.count(("quiet", "joined")) == 20
    assert ends.count(("noisy", "evicted")) > 800
    # above its share, it makes room like any other
    more = [example("quiet", number, 3 * number + 1) for number in range(100)]
    both = sorted([*more, *noisy], key=lambda record: record.time_ms)
    crowded = run(chosen, [(both, [])]).rows["outcomes"]
    assert len(of_stream(crowded, "quiet")) > 60


def test_verify_finds_a_levelling_that_evicts_a_record_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """An eviction that the rules do not ask for loses a label of a user."""
    chosen, examples, labels = fixed_input(150, join=with_pool(9_000), delay_ms=300)
    opinion_of(chosen, [(examples, labels)])
    monkeypatch.setattr(table_pool, "level_of", lambda used, bound: level_of(used, bound) - 700)
    with pytest.raises(DiffersError):
        opinion_of(chosen, [(examples, labels)])


def test_a_lower_bound_empties_the_pool_by_and_by() -> None:
    """The records that follow close the rest: one burst of all would not fit into a transaction."""
    chosen = two_streams(1 << 28)
    task = Task(PARTITION, chosen, TOPICS)
    for first in range(0, 24_000, 3_000):
        task.step(
            columns([example("noisy", number, number + 1) for number in range(first, first + 3_000)]), columns([])
        )
    smaller = chosen.model_copy(update={"join": with_pool(1 << 16)})
    task.apply_settings(smaller)
    closed = []
    for number in range(24_000, 24_004):
        outputs = task.step(columns([example("noisy", number, number + 1)]), columns([]))
        closed.append(len(outputs.topics["outcomes"]))
    assert closed[:2] == [10_000, 10_000]
    assert closed[3] <= 2
    assert task.pool.used_share <= 1
    assert task.pool.crowded() == {"noisy"}


def test_tables_become_smaller_after_other_streams_have_filled_the_pool() -> None:
    """Otherwise streams that are busy in turn would each keep the memory of a whole pool."""
    names = [f"s{number}" for number in range(8)]
    stream = StreamSettings(features=2, champion="one", learners=LEARNERS)
    bound = 2_000_000
    chosen = two_streams(bound, 8).model_copy(update={"streams": dict.fromkeys(names, stream)})
    task, whole = Task(PARTITION, chosen, TOPICS), run
    assert interval_of(bound) == 30
    outcomes: list[Row] = []
    for turn, name in enumerate(names):
        begin = 3_000 * turn
        for first in range(begin, begin + 3_000, 500):
            records = [example(name, number, number + 1) for number in range(first, first + 500)]
            outputs = task.step(columns(records), columns([]))
            outcomes += rows_of(outputs.topics["outcomes"])
    held = sum(task.stream(name).join.allocated_bytes for name in names)
    assert held < 1.2 * bound
    everything = [example(names[number // 3_000], number, number + 1) for number in range(24_000)]
    assert whole(chosen, [(everything, [])]).rows["outcomes"] == outcomes, "no result depends on it"


@FEW
@given(st.lists(st.integers(0, 200), min_size=1, max_size=8), st.integers(0, 1_000))
def test_the_level_is_the_largest_that_fits(used: list[int], bound: int) -> None:
    """A smaller level would evict more than is needed; a larger level would leave the pool above its bound."""
    level = level_of(np.array(used, np.int64), bound)
    if sum(used) <= bound:
        assert level == max(used)
    else:
        assert sum(min(each, level) for each in used) <= bound < sum(min(each, level + 1) for each in used)
        assert level >= bound // len(used)


@pytest.mark.parametrize("bound", [9_000, 1 << 17])
def test_only_the_streams_that_are_named_before_a_batch_change_in_it(bound: int) -> None:
    """A snapshot under way drafts these before the batch: another one that changed would be stored as it is later."""
    chosen, examples, labels = fixed_input(400, join=with_pool(bound), delay_ms=300)
    by_stream = cut_at(sorted([*examples, *labels], key=lambda record: (record.stream, record.time_ms)), [])[0]
    task, made_room = Task(PARTITION, chosen, TOPICS), set()
    for first in range(0, 400, 10):
        batch = [columns(side[first : first + 10]) for side in by_stream]
        opened = task.open(*batch)
        named, changing = set(opened.named_streams()), set(task.pool.changing(opened))
        before = {state.name: pack(state.core_state()) for state in task.states()}
        task.run(opened)
        changed = {state.name for state in task.states() if before.get(state.name) != pack(state.core_state())}
        assert changed <= changing
        made_room |= changed - named
    assert made_room
