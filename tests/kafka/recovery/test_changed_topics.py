"""On a real broker: topics that are deleted and created again under a worker, and commands that run at once."""

import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from confluent_kafka.admin import AdminClient

from stream_app.admin.inspect_tasks import inspect
from stream_app.backends.base import TopicPartition
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.errors import ArebaError
from stream_app.progress_records import RESET, Act
from stream_app.record_columns import OutputRecords
from stream_app.serialization import codec
from stream_app.verify.results import Code
from stream_app.verify.verify import verify
from tests.kafka.recovery.applications import STREAMS
from tests.support.kafka.application import App, Load
from tests.support.kafka.processes import ROOT, run_to, workers
from tests.support.kafka.progress import Progress
from tests.support.kafka.records import all_records
from tests.support.kafka.topics import read_topic
from tests.support.kafka.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.kafka


def _recreate(app: App, names: Sequence[str]) -> None:
    admin = AdminClient({"bootstrap.servers": app.servers})
    for future in admin.delete_topics(list(names)).values():
        future.result(DEADLINE_S)
    wait_until(lambda: not app.cluster.topics(names), "the topics are gone")
    app.create_topics()


def test_outputs_do_not_create_a_topic_that_was_deleted(app: App) -> None:
    """Brokers create topics on demand by default, with one partition: the real topic could not be created then."""
    place = TopicPartition(f"{app.prefix}deleted", 0)
    settings = {"topic.metadata.propagation.max.ms": "1000"}
    with closing(KafkaTransaction(app.servers, f"{app.prefix}w", settings)) as transaction:
        transaction.begin()
        transaction.produce(place, OutputRecords.of([b"key"], [b"value"], [0]))
        with pytest.raises(ArebaError):
            transaction.commit()
    assert not app.cluster.topics([place.topic])


@pytest.mark.slow(40)
def test_outputs_that_are_created_again_under_a_worker(app: App) -> None:
    """It continues at once, and so does the next worker after `kill -9`; the new topics have all that came later."""
    topics = app.config.topics
    with workers(app, "w") as (worker,), Load(app, STREAMS, seed=11), Progress(app) as progress:
        worker.start()
        progress.wait_for_more(5)
        _recreate(app, [topics.predictions, topics.outcomes])
        worker.wait_for("topic-replaced task=")  # a task that had committed nothing has lost nothing, and says nothing
        progress.wait_for_more(5)
        worker.kill()
        worker.start()
        progress.wait_for_more(5)
        assert worker.stop() == 0
        assert "parked" not in worker.log()
    run_to(app.config, app.input_ends())
    assert read_topic(app.cluster, TopicPartition(topics.predictions, 0))
    findings = verify(app.cluster, app.config, rerun=True).findings
    assert {finding.code for finding in findings} == {Code.DELETED_RECORDS}
    assert len(findings) <= app.partitions
    assert all(view.problem is None for view in inspect(app.cluster, app.config).tasks)


@pytest.mark.slow(40)
def test_commands_that_run_at_the_same_time(app: App) -> None:
    """Whoever ends with status 0 has written; the next worker restores the task with all of that."""
    app.send(all_records(STREAMS, 100, int(time.time() * 1000) - 60_000, seed=12))
    run_to(app.config, app.input_ends())
    stream, number = STREAMS[0].name, STREAMS[0].partition
    words = [sys.executable, "-m", "stream_app.cli", "reset", stream, "--task", str(number)]

    def reset(_: int) -> subprocess.CompletedProcess[str]:
        command = [*words, "-c", str(app.file("here"))]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2 * DEADLINE_S, check=False)

    with ThreadPoolExecutor(3) as threads:
        ended = list(threads.map(reset, range(3)))
    assert {done.returncode for done in ended} <= {0, 3}, ended
    succeeded = sum(done.returncode == 0 for done in ended)
    assert succeeded, ended
    rows = read_topic(app.cluster, TopicPartition(app.config.topics.progress, number))
    acts = [record for row in rows if isinstance(record := codec.decode_one(row.value or b""), Act)]
    resets = [act.sequence for act in acts if act.kind == RESET]
    assert len(set(resets)) == len(resets) == succeeded
    app.send(all_records(STREAMS, 20, int(time.time() * 1000) - 50_000, seed=13))
    run_to(app.config, app.input_ends())
