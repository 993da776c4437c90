"""`areba repartition`: the streams of an application move to more partitions, and nothing else changes."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from stream_app.admin.models import Application, explain
from stream_app.admin.repartition import repartition
from stream_app.backends.base import TopicInfo
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.backends.partitioner import partition_of
from stream_app.backends.retention import TIMES_BEFORE
from stream_app.backends.topics import plan
from stream_app.errors import ConfigurationError, ErrorCode, StateError, UnknownOutcomeError
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.records import Example, Label, Outcome
from stream_app.serialization import codec
from stream_app.task_state import TaskState
from stream_app.verify.verify import verify
from tests.support.world import MAX_POLL_INTERVAL_S, World, make_config, started, take_turns

STREAMS = [f"s{number}" for number in range(12)]


def _config(**sections: Any) -> Any:  # noqa: ANN401  (sections of a file)
    streams = {name: {"features": 2} for name in STREAMS}
    learners = {"areba": {"method": "areba"}, "relay": {"method": "relay"}}
    sections = {"worker": {"snapshot_after_ms": 3_600_000}, "join": {"corrections": "correct"}, **sections}
    return make_config(streams=streams, learners=learners, predictions="all", **sections)


@dataclass
class _World(World):
    """An application with any number of partitions."""

    partitions: int = 2

    def add_topic(self, name: str) -> None:
        """Create a topic with a partition for each task."""
        planned = {t.name: t.settings for t in plan(self.config.topics, self.partitions)}
        settings = {**planned.get(name, {}), "retention.ms": "-1"}
        settings.pop(TIMES_BEFORE, None)
        self.broker.create_topic(TopicInfo(name, self.partitions, settings))

    def feed(self, first: int, count: int, partitions: int, shift: int = 7) -> None:
        """Send examples of all streams, and the labels of the examples `shift` before them."""
        for number in range(first, first + count):
            for name in STREAMS:
                key, place = name.encode(), partition_of(name.encode(), partitions)
                features = [float((number * 7 + len(name) + int(name[1:])) % 5), number % 3 - 1.0]
                self.put("examples", place, key, codec.encode(Example(name, f"e{number}", features)), 1_000 + number)
                if number >= shift:
                    label = Label(name, f"e{number - shift}", number % 2)
                    self.put("labels", place, key, codec.encode(label), 1_000 + number)
                if number % 5 == 0:  # comes before its example
                    early = codec.encode(Label(name, f"e{number + 3}", 1))
                    self.put("labels", place, key, early, 1_000 + number)

    def run(self) -> dict[str, Mapping[str, str]]:
        """Let a worker process everything; return the digests of all models, by task."""
        member = started(self.worker())
        wanted = {
            number: tuple(self.cluster.watermarks(place).high for place in places)
            for number, places in enumerate(zip(*self.inputs(), strict=True))
        }
        take_turns(
            member,
            until=lambda: (
                len(member.tasks) == len(wanted)
                and all(task.state is TaskState.LIVE and task.offsets == wanted[task.number] for task in member.tasks)
            ),
        )
        digests = {key: value for task in member.tasks for key, value in task.live.task.model_digests().items()}
        self.clock.advance(MAX_POLL_INTERVAL_S + 1)
        return digests

    def inputs(self) -> list[list[Any]]:
        """Return the partitions of both inputs."""
        from stream_app.backends.base import TopicPartition

        found = self.cluster.topics(self.config.topics.inputs)
        return [[TopicPartition(t.name, n) for n in range(t.partitions)] for t in found.values()]

    def by_stream(self) -> Mapping[tuple[str, bytes], list[Any]]:
        """Return all outputs by topic and stream, without offsets and partitions."""
        found: defaultdict[tuple[str, bytes], list[Any]] = defaultdict(list)
        for topic in OUTPUT_TOPICS:
            names = self.cluster.topics(self.config.topics)
            count = names[getattr(self.config.topics, topic.replace("-", "_"))].partitions
            for number in range(count):
                for key, value, _, headers in self.rows(topic, number):
                    record = codec.decode_one(value) if topic == "outcomes" else value
                    if isinstance(record, Outcome):
                        record = codec.encode(replace(record, example_offset=None, label_offset=None))
                    kept = [one for one in headers if not one[0].startswith("__connect.errors")]
                    found[topic, key].append((record, kept))
        return found


def _world(partitions: int, config: Any = None) -> _World:  # noqa: ANN401
    return _World(config or _config(), partitions=partitions)


@pytest.fixture(scope="module")
def always() -> tuple[Mapping[tuple[str, bytes], list[Any]], Mapping[str, Any]]:
    """Return the outputs and models of an application that always had four partitions."""
    world = _world(4)
    world.feed(0, 40, 4)
    world.run()
    world.feed(40, 40, 4)
    models = world.run()
    return world.by_stream(), models


@pytest.mark.parametrize("snapshot_after_ms", [0, 3_600_000])
def test_outputs_are_those_of_an_application_that_always_had_so_many(
    snapshot_after_ms: int, always: tuple[Any, Any]
) -> None:
    """Models, pending examples, waiting labels, closed ids and sums come with their streams."""
    world = _world(2, _config(worker={"snapshot_after_ms": snapshot_after_ms}))
    world.feed(0, 40, 2)
    world.run()
    lines = list(repartition(world.application(), 4))
    assert lines[-1].startswith("app has 4 partitions")
    world.feed(40, 40, 4)
    models = world.run()
    assert models == always[1]
    assert world.by_stream() == always[0]
    assert world.run() == models  # restored, from acts or from snapshots
