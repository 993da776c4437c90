"""`areba topics create` makes a missing topic as the application has the others, and not with a default."""

import pytest

from stream_app.backends import topics
from stream_app.backends.base import TopicInfo
from stream_app.cli import topic_setup
from stream_app.cli.preflight import Level, check_tasks
from stream_app.cli.topic_setup import DEFAULT_PARTITIONS, create_topics
from stream_app.errors import ConfigurationError, TopicError
from stream_app.verify.results import Code
from stream_app.verify.verify import verify
from tests.support.world import MAX_POLL_INTERVAL_S, PARTITIONS, World, all_at, make_config, started, take_turns

COUNT = 10


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a world in which an application has begun; its worker was killed."""
    made = World(make_config(worker={"snapshot_after_ms": 3_600_000}))
    monkeypatch.setattr(topic_setup, "connect", lambda _: made.cluster)
    monkeypatch.setattr(topics, "check", lambda *_, **__: [])  # the world's topics have no settings
    made.send(COUNT)
    take_turns(member := started(made.worker()), until=all_at(member, COUNT))
    made.clock.advance(MAX_POLL_INTERVAL_S + 1)
    return made


@pytest.mark.parametrize("name", ["changelog", "progress", "examples", "dead_letters"])
@pytest.mark.parametrize("wanted", [None, PARTITIONS])
def test_a_missing_topic_gets_the_number_that_the_application_has(world: World, name: str, wanted: int | None) -> None:
    """With 4 partitions instead of 2, each start logged that the topic has grown, and `inspect` ended with 1."""
    topic = getattr(world.config.topics, name)
    world.broker.delete_topic(topic)
    create_topics(world.config, wanted)
    assert world.broker.topic(topic).partitions == PARTITIONS


def test_another_number_is_refused(world: World) -> None:
    """The number cannot change; the error says which it is."""
    world.broker.delete_topic(world.config.topics.changelog)
    with pytest.raises(ConfigurationError, match=f"--partitions 8: app has {PARTITIONS} tasks"):
        create_topics(world.config, 8)
    assert world.config.topics.changelog not in world.broker.topics()


def test_a_new_application(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its inputs may be there, with a number that their owner has chosen."""
    world = World()
    monkeypatch.setattr(topic_setup, "connect", lambda _: world.cluster)
    monkeypatch.setattr(topics, "check", lambda *_, **__: [])
    for name in world.config.topics:
        world.broker.delete_topic(name)
    world.broker.create_topic(TopicInfo(world.config.topics.examples, 7, {}))
    create_topics(world.config, None)
    assert {topic.partitions for topic in world.broker.topics().values()} == {7}
    for name in world.config.topics:
        world.broker.delete_topic(name)
    create_topics(world.config, None)
    assert {topic.partitions for topic in world.broker.topics().values()} == {DEFAULT_PARTITIONS}


@pytest.mark.parametrize("wanted", [None, 7, 8])
def test_nothing_is_created_beside_inputs_that_do_not_fit(monkeypatch: pytest.MonkeyPatch, wanted: int | None) -> None:
    """Six topics with a wrong number of partitions would have to be deleted before the right ones can be created."""
    world = World()
    monkeypatch.setattr(topic_setup, "connect", lambda _: world.cluster)
    for name in world.config.topics:
        world.broker.delete_topic(name)
    inputs = world.config.topics.inputs
    for name, partitions in zip(inputs, (7, 7 if wanted == 8 else 3), strict=True):
        world.broker.create_topic(TopicInfo(name, partitions, {}))
    with pytest.raises(TopicError):
        create_topics(world.config, wanted)
    assert set(world.broker.topics()) == set(inputs)


@pytest.mark.parametrize(
    ("name", "level", "text"),
    [
        ("predictions", Level.WARNING, "predictions was deleted and created again"),
        ("dead_letters", Level.WARNING, "dead-letters was deleted and created again"),
        ("labels", Level.WRONG, "labels was deleted and created again"),
    ],
)
def test_check_sees_topics_that_were_created_again(world: World, name: str, level: Level, text: str) -> None:
    """An operator asks before a worker starts."""
    topic = getattr(world.config.topics, name)
    world.broker.delete_topic(topic)
    world.add_topic(topic)
    found = list(check_tasks(world.config, world.cluster, world.cluster.topics(world.config.topics)))  # type: ignore[arg-type]
    assert any(result.level is level and text in result.text for result in found), found


@pytest.mark.parametrize("names", [["predictions"], ["outcomes"], ["metrics"], ["predictions", "dead_letters"]])
@pytest.mark.parametrize("rerun", [True, False])
def test_verify_reports_a_created_topic_once(world: World, names: list[str], *, rerun: bool) -> None:
    """Each lost record was a finding, 609 of them, for ever."""
    for name in names:
        topic = getattr(world.config.topics, name)
        world.broker.delete_topic(topic)
        world.add_topic(topic)
    for more in (0, 5):
        world.send(more, first=COUNT)
        take_turns(member := started(world.worker()), until=all_at(member, COUNT + more))
        world.clock.advance(MAX_POLL_INTERVAL_S + 1)
        report = verify(world.cluster, world.config, rerun=rerun)
        assert [finding.code for finding in report.findings] == [Code.DELETED_RECORDS] * PARTITIONS, report.findings
        for name in names:
            assert f"{name.replace('_', '-')} was deleted and created again" in report.findings[0].text
    world.put(names[0], 0, b"s0", b"foreign")
    assert len(verify(world.cluster, world.config, rerun=rerun).findings) > PARTITIONS, "what came later is checked"
