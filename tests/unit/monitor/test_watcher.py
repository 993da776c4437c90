"""What `areba watch` reads from the topics of a real worker, over the in-process log."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from stream_app.backends.base import TopicPartition
from stream_app.backends.memory.log_reader import EmbeddedLogFollower
from stream_app.errors import TopicError
from stream_app.monitor import watcher as module
from stream_app.monitor.figures import StreamFigures
from stream_app.monitor.watcher import Watcher
from stream_app.progress_records import Commit
from stream_app.serialization.codec import encode
from tests.support.formats.metrics import metric
from tests.support.world import World, started, take_turns, world_after


@pytest.fixture
def world() -> World:
    """Return a world whose worker has processed 20 examples and labels of each partition."""
    return world_after(20)


@pytest.fixture
def watcher(world: World) -> Iterator[Watcher]:
    """Return a watcher that has read what was there."""
    with closing(Watcher(world.cluster, world.config, world.clock)) as watcher:
        watcher.catch_up()
        yield watcher


def _streams(watcher: Watcher) -> dict[str, StreamFigures]:
    return {stream.stream: stream for stream in watcher.figures().streams}


def test_the_past_is_shown_without_counting_in_rates(watcher: Watcher) -> None:
    """The first table must be full, and must not show the complete history as the work of one second."""
    for number, (name, stream) in enumerate(_streams(watcher).items()):
        assert (name, stream.task) == (f"s{number}", number)
        assert [one.labelled for one in stream.learners] == [20, 20]
        assert (stream.labelled_per_s, stream.lag_ms, stream.dead_letters) == (None, 0, 0)
    assert watcher.figures().notes() == []


def test_watch_shows_lag_and_rate(world: World, watcher: Watcher) -> None:
    """Unprocessed examples are a lag in event time; processed ones are a rate, newer metrics and a lag of 0."""
    world.send(10, first=20, partitions=[1])
    world.put("examples", 1, b"s1", b"nonsense", 300)
    watcher.update()
    assert _streams(watcher)["s1"].lag_ms == 300 - 191, "example 19 was predicted last"
    assert _streams(watcher)["s0"].lag_ms == 0
    worker = started(world.worker())
    take_turns(worker, until=lambda: worker.tasks != [] and any(t.offsets == (31, 30) for t in worker.tasks))
    world.clock.advance(2)
    watcher.update()
    found = _streams(watcher)["s1"]
    assert found.labelled_per_s is not None
    assert found.labelled_per_s > 0
    assert _streams(watcher)["s0"].labelled_per_s == 0
    assert (found.lag_ms, found.dead_letters) == (0, 1)
    assert {one.labelled for one in found.learners} == {28}, "every 4 labels"


def test_only_the_tail_of_dead_letters_is_read(world: World) -> None:
    """A count that leaves older dead letters out must say so."""
    for _ in range(4):
        world.put("examples", 1, b"s1", b"nonsense", 300)
    worker = started(world.worker())
    take_turns(worker, until=lambda: any(task.offsets == (24, 20) for task in worker.tasks))
    with closing(
        Watcher(world.cluster, world.config, world.clock, tails={**module.TAILS, "dead_letters": 3})
    ) as watcher:
        watcher.catch_up()
        found = _streams(watcher)["s1"]
    assert 0 < found.dead_letters <= 3
    assert not found.dead_letters_are_all


def test_a_flood_is_skipped(world: World, watcher: Watcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view that reads ever older records would show a lag that the application does not have."""
    monkeypatch.setattr(module, "POLL_RECORDS", 5)
    monkeypatch.setattr(module, "MAX_POLLS", 2)
    place = TopicPartition(world.config.topics.metrics, 0)
    rows = [(b"s0", encode(metric(labelled, stream="s0")), 1, ()) for labelled in range(3_000)]
    world.broker.append(place, rows)
    for _ in range(module.MAX_FULL_UPDATES):
        watcher.update()
    monkeypatch.setattr(module, "POLL_RECORDS", 5_000)
    watcher.update()
    figures = watcher.figures()
    assert 0 < figures.skipped == 3_000 - 2_000 - 2 * 5 * module.MAX_FULL_UPDATES
    assert figures.streams[0].learners[0].labelled == 2_999


def test_a_topic_that_vanishes_is_a_line(world: World, watcher: Watcher) -> None:
    """The other figures are still useful, and a table without a reason would look like an idle application."""
    world.broker.delete_topic(world.config.topics.predictions)
    world.put("metrics", 0, b"s0", encode(metric(77, stream="s0")))
    watcher.update()
    (line,) = watcher.figures().notes()
    assert world.config.topics.predictions in line
    assert _streams(watcher)["s0"].learners[0].labelled == 77
    world.clock.advance(module.TOPICS_CHECKED_S)
    watcher.update()
    assert len(watcher.figures().notes()) == 1
    world.add_topic(world.config.topics.predictions)
    watcher.update()
    world.clock.advance(module.TOPICS_CHECKED_S)
    watcher.update()
    assert watcher.figures().notes() == []


def test_a_deleted_topic_that_the_client_does_not_report(
    world: World, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's client says nothing for a long time: the topic would look idle."""
    monkeypatch.setattr(EmbeddedLogFollower, "problems", ())
    world.broker.delete_topic(world.config.topics.labels)
    world.broker.delete_topic(world.config.topics.outcomes)
    world.clock.advance(module.TOPICS_CHECKED_S)
    watcher.update()
    assert [line.partition(":")[0] for line in watcher.figures().notes()] == [world.config.topics.outcomes]


def test_a_missing_topic_is_an_error(world: World) -> None:
    """A user who watches the wrong application must not wait for records that never come."""
    world.broker.delete_topic(world.config.topics.outcomes)
    with pytest.raises(TopicError) as refused:
        Watcher(world.cluster, world.config, world.clock)
    assert [line.split(":")[0] for line in refused.value.lines] == [world.config.topics.outcomes]


def test_records_of_other_programs_are_counted(world: World, watcher: Watcher) -> None:
    """One foreign record must not end the view."""
    world.put("metrics", 0, b"s0", b"nonsense")
    world.put("outcomes", 0, b"s0", None)
    world.put(
        "progress",
        0,
        None,
        encode(Commit(99, 0, 0, 0, 0, bytes(32), 1, stopped_streams=1, stopped='{"s0": "too many"}')),
    )
    watcher.update()
    assert len(watcher.figures().problems) == 2
