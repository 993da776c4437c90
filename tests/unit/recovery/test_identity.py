"""What must not change under an application: topics that grow, and topics that are deleted and created again."""

import logging
from contextlib import suppress

import pytest

from stream_app.admin.inspect_tasks import inspect
from stream_app.admin.marks import promote
from stream_app.admin.skip import skip
from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.memory.sender import EmbeddedSender
from stream_app.backends.partitioner import partition_of
from stream_app.backends.progress import partitions_of
from stream_app.backends.topics import plan
from stream_app.cli.topic_setup import check_topics
from stream_app.errors import ErrorCode, StateError, TopicError
from stream_app.progress_records import CONFIGURATION, Act, Commit
from stream_app.serialization import codec
from stream_app.task_state import TaskState
from stream_app.verify.results import Code
from stream_app.verify.verify import verify
from tests.support.brokers import AdministeredBroker
from tests.support.world import PARTITIONS, World, all_at, make_config, started, take_turns, undisturbed_outputs

GROWN = 2 * PARTITIONS


def _processed(count: int = 10) -> World:
    """Return a world in which a worker has processed this many examples and labels of each task, and left."""
    world = World()
    world.send(count)
    member = world.worker()
    member.run(all_at(member, count))
    return world


def _lines(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    return [line for record in caplog.records if (line := record.getMessage()).startswith(name)]


# Growth ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "which",
    [
        pytest.param(("examples", "labels"), id="inputs"),
        pytest.param(("examples",), id="examples"),
        pytest.param(("labels",), id="labels"),
        pytest.param(World().config.topics._fields, id="all"),
    ],
)
@pytest.mark.parametrize("joins", [0, 1, 2], ids=["restart", "running", "two workers"])
def test_topics_that_grow_change_no_result(
    which: tuple[str, ...], joins: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A stream that moved to another partition would meet an empty model, and labels would miss their examples."""
    world = World()
    world.send(10)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 10))
    for name in which:
        world.broker.grow_topic(getattr(world.config.topics, name), GROWN)
    for topic in {"examples", "labels"} & set(which):
        world.put(topic, GROWN - 1, b"s0", b"sent to a partition that nobody reads")
    members = [member] if joins else [started(world.worker())]
    if joins == 2:
        members.append(started(world.worker(make_config(application={"instance": "v"}), joins=True)))
    world.send(10, first=10)
    with caplog.at_level(logging.WARNING, "areba.worker"):
        take_turns(
            *members,
            until=lambda: (
                sorted((task.number, task.state, task.offsets) for one in members for task in one.tasks)
                == [(number, TaskState.LIVE, (20, 20)) for number in range(PARTITIONS)]
            ),
        )
    assert world.outputs() == undisturbed_outputs(10, 10)
    if joins and "predictions" not in which:
        assert len(_lines(caplog, "topics")) == len(members) * (len(which) + 1), "each worker says it once"
    for number in range(PARTITIONS):
        recorded = [one for one in world.progress(number) if isinstance(one, Commit) or one.kind == CONFIGURATION]
        assert {record.partitions for record in recorded} == {PARTITIONS}


def test_inspect_says_what_to_do_about_topics_that_have_grown() -> None:
    """Without a warning, records in the new partitions would be lost while every task looks healthy."""
    world = _processed()
    assert all(view.ok for view in inspect(world.cluster, world.config).tasks)
    world.broker.grow_topic("labels", GROWN)
    found = inspect(world.cluster, world.config)
    assert not found.ok
    assert all(view.ok for view in found.tasks)
    line, way_out, _ = map(str, found.problems())  # the last line says that no worker is running
    assert "labels has 4 partitions" in line
    assert "--partitions 2" in way_out


def test_a_start_takes_topics_that_have_grown_but_no_smaller_ones() -> None:
    """Kafka cannot shrink a topic: a refusal would leave an operator without a remedy."""
    world = World()
    cluster, topics = world.cluster, world.config.topics
    world.broker = AdministeredBroker(world.clock)
    world.cluster = cluster = type(cluster)(world.broker)
    cluster.create(plan(topics, PARTITIONS), 1)
    world.broker.grow_topic(topics.examples, GROWN)
    with pytest.raises(TopicError, match="examples: has 4 partitions and app-progress has 2"):
        check_topics(world.config, cluster)  # a port does
    act = Act(0, CONFIGURATION, "1.0.0", world.config.task_settings().to_json(), 2, PARTITIONS)
    world.put("progress", 1, None, codec.encode(act))
    check_topics(world.config, cluster)
    world.broker.grow_topic(topics.progress, GROWN)
    assert partitions_of(cluster, topics) == PARTITIONS
    world.broker.delete_topic(topics.metrics)
    world.broker.create_topic(TopicInfo(topics.metrics, 1, {}))
    with pytest.raises(TopicError, match="metrics: has 1 partitions and the application has 2 tasks"):
        check_topics(world.config, cluster)


def test_an_older_application_keeps_the_number_of_its_progress_topic() -> None:
    """Its records name no number; the next commit does, and from then on topics may grow."""
    world = World()
    act = Act(0, CONFIGURATION, "0.9.0", world.config.task_settings().to_json())
    world.put("progress", 0, None, codec.encode(act))
    world.broker.grow_topic("examples", GROWN)
    assert partitions_of(world.cluster, world.config.topics) == PARTITIONS
    world.send(5)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 5))
    acts = [record for record in world.progress(0) if isinstance(record, Act)]
    assert [(act.sequence, act.partitions) for act in acts] == [(0, 0), (1, PARTITIONS)]
    world.broker.grow_topic(world.config.topics.progress, GROWN)
    assert partitions_of(world.cluster, world.config.topics) == PARTITIONS


def test_our_producers_keep_to_the_recorded_number() -> None:
    """A mark in a partition that no task reads would have no effect; a label there would be lost."""
    world = _processed()
    for name in ("examples", "labels"):
        world.broker.grow_topic(name, GROWN)
    streams = [f"s{number}" for number in range(100)]
    moved = next(s for s in streams if partition_of(s.encode(), GROWN) != partition_of(s.encode(), PARTITIONS))
    sender = EmbeddedSender(world.broker, PARTITIONS)
    sender.send("labels", moved.encode(), b"", 1)
    assert set(sender.flush(1)) == {TopicPartition("labels", partition_of(moved.encode(), PARTITIONS))}
    config = world.config.model_copy(update={"unknown_streams": "model"})
    place, _ = promote(world.application(config), EmbeddedSender(world.broker), moved, "baseline")
    assert place == TopicPartition("examples", partition_of(moved.encode(), PARTITIONS))


# Deleted and created again --------------------------------------------------------------------------------------------


def _create_again(world: World, *names: str) -> None:
    for name in names:
        old = world.broker.topic(name)
        world.broker.delete_topic(name)
        world.broker.create_topic(TopicInfo(name, old.partitions, {}))


@pytest.mark.parametrize("names", [("examples",), ("labels",), ("examples", "labels")], ids="+".join)
@pytest.mark.parametrize("offsets", ["gone", "kept"])
def test_a_topic_that_was_created_again_is_recognised(names: tuple[str, ...], offsets: str) -> None:
    """Its offsets count other records: to continue from them would skip the new topic's records below them."""
    world = _processed()
    kept = dict(world.broker.groups.group("app").offsets)
    old = {name: world.broker.topic(name).topic_id for name in names}
    _create_again(world, *names)
    if offsets == "kept":
        world.broker.groups.group("app").offsets = kept
    world.send(30)
    before = [world.outputs(), *map(world.progress, range(PARTITIONS))]
    with pytest.raises(StateError, match=ErrorCode.INPUTS_REPLACED) as caught:
        world.worker().run(lambda: False)
    views = inspect(world.cluster, world.config).tasks
    for text in (str(caught.value), *(view.problem or "" for view in views)):
        assert names[0] in text
        assert old[names[0]] in text
        assert world.broker.topic(names[0]).topic_id in text
        assert "skip" not in text
    found = inspect(world.cluster, world.config)
    assert [(view.state, view.command) for view in found.tasks] == [(TaskState.PARKED, None)] * PARTITIONS
    with suppress(StateError):
        list(skip(world.application(), []))
    assert [world.outputs(), *map(world.progress, range(PARTITIONS))] == before


def test_another_application_reads_the_new_topic_from_its_beginning() -> None:
    """The remedy that the error names works."""
    world = _processed()
    _create_again(world, "examples", "labels")
    world.send(30)
    changed = {"application": {"id": "next", "instance": "w"}, "kafka": {"output_prefix": "next-"}}
    config = world.config.model_validate({**world.config.model_dump(mode="json"), **changed})
    world.cluster.create([TopicInfo(name, PARTITIONS, {}) for name in config.topics], 1)
    member = started(world.worker(config))
    take_turns(member, until=all_at(member, 30))


def test_topics_that_were_recorded_without_ids_are_not_compared() -> None:
    """A broker older than topic ids is served as it is."""
    world = _processed()
    topics = world.broker._topics
    for name in ("examples", "labels"):
        topics[name] = TopicInfo(name, topics[name].partitions, topics[name].settings)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 10))
    commits = [record for record in world.progress(0) if isinstance(record, Commit)]
    assert commits[-1].examples_topic_id, "the worker before had an id to record"


def test_verify_finds_what_nobody_reads() -> None:
    """`verify` reports records in partitions that were added: no task reads them, and a sender may still write them."""
    world = World()
    world.send(3)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 3))
    world.broker.grow_topic(world.config.topics.examples, GROWN)
    assert verify(world.cluster, world.config).ok
    world.put("examples", PARTITIONS, b"s", b"")
    report = verify(world.cluster, world.config)
    found = [(finding.code, finding.topic, finding.partition, finding.offset) for finding in report.findings]
    assert found == [(Code.UNREAD_PARTITION, "examples", PARTITIONS, 0)]
