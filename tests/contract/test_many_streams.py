"""Ten thousand configured streams: no record grows with their number, and the next owner restores them."""

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from stream_app.backends.base import TopicPartition
from stream_app.backends.clock import SystemClock
from stream_app.backends.retention import FOREVER
from stream_app.backends.topics import plan
from stream_app.config import Config, TaskSettings
from stream_app.progress_records import CONFIGURATION, Act, Commit
from stream_app.records import Example, Label, Prediction
from stream_app.serialization import codec
from stream_app.snapshot.format import CHUNK_BYTES
from stream_app.snapshot.parts import whole_acts
from stream_app.task_state import TaskState
from stream_app.worker.ports import Ports
from stream_app.worker.reports.observer import Observer
from stream_app.worker.worker import Worker
from tests.contract.backends import DEADLINE_S, START_MS, Backend, log_values, wait_for_markers

STREAMS = 10_000
TRADING = ("shop-00000", "shop-04711", "shop-09999")
LARGEST_BYTES = 500_000


@pytest.fixture(scope="module")
def settings() -> Config:
    """Return a configuration of many streams, each with a model."""
    plain = {
        "streams": {f"shop-{number:05}": {"features": 2} for number in range(STREAMS)},
        "limits": {"max_streams_per_task": STREAMS},
        "worker": {"snapshot_after_ms": 0, "commit_interval_ms": 0},
    }
    return Config.model_validate(plain)


def _member(backend: Backend, config: Config) -> Worker:
    transaction = backend.transaction(config.transactional_id, initialised=False)
    ports = Ports(
        backend.source(config.group_id),
        transaction,
        backend.cluster(),
        SystemClock(),
        partial(backend.transaction, initialised=False),
    )
    return Worker(config, ports, Observer(SystemClock()))


def _send(backend: Backend, config: Config, first: int) -> None:
    """Send four examples and labels of some streams."""
    sender, names = backend.sender(), config.topics
    for number in range(first, first + 4):
        for stream in TRADING:
            example, label = Example(stream, str(number), [1.0, number]), Label(stream, str(number), number % 2)
            for topic, value in ((names.examples, example), (names.labels, label)):
                sender.send(topic, stream.encode(), codec.encode(value), START_MS + number, partition=0)
    sender.flush(DEADLINE_S)


def _run(member: Worker, until: Callable[[Worker], bool]) -> None:
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + DEADLINE_S
    while not until(member):
        assert clock.monotonic_s() < deadline_s, [(task.state, task.problem, task.offsets) for task in member.tasks]
        member.turn()


def _is_at(records: int) -> Callable[[Worker], bool]:
    """Return the condition that this many records of each input are processed, and a snapshot is complete and named."""
    return lambda member: any(
        task.state is TaskState.LIVE
        and task.offsets == (records, records)
        and not task.is_saving
        and task.live.snapshots.named
        for task in member.tasks
    )


def _predicted(backend: Backend, config: Config) -> Sequence[tuple[str, str]]:
    place = TopicPartition(config.topics.predictions, 0)
    wait_for_markers(backend.cluster(), place)
    values = log_values(backend.cluster(), place)
    records = [codec.decode_one(value or b"") for value in values]
    return [(record.stream, record.id) for record in records if isinstance(record, Prediction)]


def test_ten_thousand_configured_streams_start(backend: Backend, prefix: str, settings: Config) -> None:
    """Their configuration has 3 MB; as one record, it would make the first transaction fail forever."""
    own = {"application": settings.application.model_copy(update={"id": f"{prefix}app"})}
    config = settings.model_copy(update=own | {"kafka": settings.kafka.model_copy(update={"topic_prefix": prefix})})
    cluster = backend.cluster()
    cluster.create(plan(config.topics, 1, retention_ms=FOREVER), 1)
    _send(backend, config, 0)
    member = _member(backend, config)
    member.start()
    _run(member, _is_at(12))
    digests = member.tasks[0].live.model_digest()
    member._close()
    progress = log_values(cluster, TopicPartition(config.topics.progress, 0))
    assert max(len(value or b"") for value in progress) < LARGEST_BYTES
    records = [record for value in progress if isinstance(record := codec.decode_one(value or b""), Act | Commit)]
    assert [record.sequence for record in records] == list(range(len(progress)))
    acts = [record for record in whole_acts(records) if isinstance(record, Act)]
    (act,) = [record for record in acts if record.kind == CONFIGURATION]
    recorded, given = TaskSettings.from_json(act.text), config.task_settings()
    assert recorded == given.model_copy(update={"dead_letter_bytes": recorded.dead_letter_bytes})
    changelog = log_values(cluster, TopicPartition(config.topics.changelog, 0))
    assert max(len(value or b"") for value in changelog) <= CHUNK_BYTES

    _send(backend, config, 4)
    again = _member(backend, config)
    again.start()
    _run(again, lambda one: any(task.report.loaded_sequence >= 0 for task in one.tasks))
    assert again.tasks[0].report.loaded_sequence >= 0, "from the snapshot, whose manifest has the settings"
    _run(again, _is_at(24))
    assert again.tasks[0].live.model_digest() != digests
    assert _predicted(backend, config) == [(stream, str(number)) for number in range(8) for stream in TRADING]
