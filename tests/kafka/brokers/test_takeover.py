"""A worker and a broker die in the middle of a transaction, and no worker of that name ever returns."""

import signal
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from ops.local_kafka.cluster import LocalKafka
from stream_app.backends.base import TopicPartition
from stream_app.lost_markers.open_transactions import HANGS_AFTER_S
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from tests.chaos.commits import Watch
from tests.support.kafka.application import App, Load, Section
from tests.support.kafka.exactly_once import check_exactly_once
from tests.support.kafka.markers import LEAVES_OUT_MARKERS
from tests.support.kafka.processes import WorkerProcess, workers
from tests.support.kafka.progress import Progress
from tests.support.kafka.records import StreamOf
from tests.support.kafka.waiting import START_DEADLINE_S, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow(60)]

STREAMS = (StreamOf("alpha", 0, 3), StreamOf("beta", 1, 2))

SECTIONS: dict[str, Section] = {
    "streams": {stream.name: {"features": stream.features} for stream in STREAMS},
    "join": {"ttl_ms": 1_500, "max_clock_lead_ms": 100},
    "worker": {"commit_interval_ms": 1},
}

LIVE_AGAIN_S = 60.0
"""From the broker's return to a commit of every task."""

MAX_FREEZES = 500
"""A busy worker has a transaction open most of the time."""

FROZEN_S = 0.1
"""A transaction that is about to end has ended by then."""


def _freeze_in_transaction(app: App, worker: WorkerProcess) -> TopicPartition:
    """Stop a worker by SIGSTOP while its transaction has records in an output partition; return the partition."""
    topics = [getattr(app.config.topics, name.replace("-", "_")) for name in OUTPUT_TOPICS]
    places = [TopicPartition(topic, number) for topic in topics for number in range(app.partitions)]
    for attempt in range(MAX_FREEZES):
        time.sleep(0.001 * (attempt % 50))
        worker.signal(signal.SIGSTOP)
        time.sleep(FROZEN_S)
        for place, found in app.cluster.ends(places).items():
            if found.stable < found.high:
                return place
        worker.signal(signal.SIGCONT)
    raise AssertionError(f"no transaction was open in {MAX_FREEZES} looks")


def _leader(app: App, place: TopicPartition) -> int:
    metadata = AdminClient({"bootstrap.servers": app.servers}).list_topics(place.topic, timeout=START_DEADLINE_S)
    return int(metadata.topics[place.topic].partitions[place.partition].leader)


def test_tasks_of_a_worker_that_never_returns(kafka3: LocalKafka, prefix: str, tmp_path: Path) -> None:
    """Its open records are on a single broker, which is down when the coordinator ends the transaction.

    Kafka writes no marker to such a partition: the transaction hangs, and only a producer of that transactional id can
    end it. No worker of that name is ever started again, and no operator intervenes.
    """
    app = App(kafka3.bootstrap_servers, prefix, tmp_path, SECTIONS, partitions=2, replication=1)
    app.create_topics()
    with (
        workers(app, "gone") as [gone],
        workers(app, "stays") as [stays],
        Progress(app) as progress,
        Watch(app) as watch,
    ):
        with Load(app, STREAMS, seed=12):
            gone.start()
            gone.wait_for("restored task=1")
            progress.wait_for_more(20)
            place = _freeze_in_transaction(app, gone)
            gone.kill()
            broker = _leader(app, place)
            kafka3.kill(broker)
            stays.start()
            over_s = time.monotonic() + HANGS_AFTER_S
            wait_until(
                lambda: time.monotonic() > over_s, "the coordinator has ended the transaction", 2 * HANGS_AFTER_S
            )
            kafka3.restart(broker)
            back_s = time.time()
            tasks = range(app.partitions)
            wait_until(lambda: watch.first_after_ms(tasks, back_s) is not None, "commits", START_DEADLINE_S)
            first_ms = watch.first_after_ms(tasks, back_s)
        progress.wait_for_ends(app.input_ends())
        assert first_ms is not None
        assert first_ms / 1000 - back_s < LIVE_AGAIN_S
        ended = f"transactional_id={app.config_of('gone').transactional_id}: its open transaction" in stays.log()
        assert ended or not LEAVES_OUT_MARKERS
        assert stays.stop() == 0
    check_exactly_once(app)
