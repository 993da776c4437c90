"""Too many workers, too few workers, and state that does not fit never cause a wrong record."""

import shutil
import signal
import threading
import time

import pytest

from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.config import Config
from stream_app.worker.worker import Worker
from tests.kafka.recovery.applications import STREAMS
from tests.support.kafka.application import App, Load
from tests.support.kafka.exactly_once import check_exactly_once
from tests.support.kafka.processes import WorkerProcess, run_to, worker_of, workers
from tests.support.kafka.progress import Progress
from tests.support.kafka.records import all_records
from tests.support.kafka.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.kafka


@pytest.mark.slow(25)
def test_two_workers_of_one_name(app: App) -> None:
    """With a copied configuration one of two workers ends with status 5 and a remedy; every record counts once."""
    twin_file = app.folder / "twin.yaml"
    shutil.copy(app.file("w"), twin_file)
    with workers(app, "w") as (first,), Load(app, STREAMS, seed=6), Progress(app) as progress:
        second = WorkerProcess(twin_file)
        try:
            first.start()
            first.wait_for("restored task=1")
            progress.wait_for_more(5)
            second.start()
            wait_until(lambda: first.has_ended or second.has_ended, "one of them ends", 3 * DEADLINE_S)
            loser, winner = (first, second) if first.has_ended else (second, first)
            assert loser.wait() == 5, loser.log()
            assert (
                "another worker runs as 'w'; give each worker its own application.instance"
                in loser.log().splitlines()[-1]
            )
            progress.wait_for_more(5)
            assert winner.stop() == 0
        finally:
            second.end()
    run_to(app.config, app.input_ends())
    check_exactly_once(app)


@pytest.mark.slow(25)
def test_a_stopped_worker_that_wakes_up_is_not_heard(app: App) -> None:
    """A worker that was frozen (a paused machine, a long swap) while others took its tasks writes nothing readable."""
    with workers(app, "one", "two") as (one, two), Progress(app) as progress:
        with Load(app, STREAMS, seed=7):
            one.start()
            one.wait_for("restored task=1")
            two.start()
            two.wait_for("restored task")
            one.wait_for("revoked")
            progress.wait_for_more(20)
            one.signal(signal.SIGSTOP)
            two.wait_for("assigned tasks=0,1")
            progress.wait_for_more(20)
            one.signal(signal.SIGCONT)
            two.wait_for("assigned", times=3)
            progress.wait_for_more(20)
        progress.wait_for_ends(app.input_ends())
        assert [worker.stop() for worker in (one, two)] == [0, 0]
    check_exactly_once(app)


class _Stalling(KafkaTransaction):
    """A transaction that blocks before its tenth `begin` until the test releases it."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.kafka.bootstrap_servers, config.transactional_id)
        self.stalled, self.let_go = threading.Event(), threading.Event()
        self._begun = 0

    def begin(self) -> None:
        """Open a transaction, once released."""
        self._begun += 1
        if self._begun == 10:
            self.stalled.set()
            assert self.let_go.wait(2 * DEADLINE_S)
        super().begin()


class _InThread(threading.Thread):
    """A worker in a thread of this process."""

    def __init__(self, worker: Worker) -> None:
        super().__init__()
        self.worker = worker
        self.enough = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Run the worker."""
        try:
            self.worker.run(self.enough.is_set)
        except BaseException as error:  # noqa: BLE001  (the test's own thread raises it)
            self.failure = error

    def end(self) -> None:
        """Stop the worker, and raise the error that ended it."""
        self.enough.set()
        self.join(DEADLINE_S)
        assert not self.is_alive()
        if self.failure is not None:
            raise self.failure


@pytest.mark.slow(25)
def test_a_batch_of_an_old_generation_is_fenced(app: App) -> None:
    """A worker computes a batch, loses its place in the group, and only then begins its transaction.

    Its transaction is young and its producer is the newest of its name, so only the group's generation can fence it.
    """
    # without polls for so long a member is removed from the group
    impatient = {"consumer": {"session.timeout.ms": 6_000, "max.poll.interval.ms": 6_000}}
    app.send(all_records(STREAMS, 200, int(time.time() * 1000) - 60_000, seed=8))
    small = {"max_batch_records": 5, "commit_interval_ms": 10}
    slow_config = app.config_of("slow", worker=small, kafka=impatient)
    stalling = _Stalling(slow_config)
    slow = _InThread(worker_of(slow_config, stalling))
    quick = _InThread(worker_of(app.config_of("quick", worker=small)))
    with Progress(app) as progress:
        slow.start()
        try:
            assert stalling.stalled.wait(DEADLINE_S)
            quick.start()
            progress.wait_for_ends(app.input_ends())
        finally:
            stalling.let_go.set()
        wait_until(lambda: slow.worker.aborts > 0 or not slow.is_alive(), "the late transaction is refused")
        slow.end()
        quick.end()
    check_exactly_once(app)
