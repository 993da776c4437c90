"""Start a worker: wait for Kafka, open the clients, load compiled code, join the group."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from logging import getLogger

from stream_app import log_lines
from stream_app.backends import topics as topic_plan
from stream_app.backends.base import Clock, Transaction
from stream_app.backends.clock import SystemClock
from stream_app.backends.kafka.outages import Outages
from stream_app.backends.kafka.source import KafkaSource
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.cli.checks import RETRY_S, wait_for_schemas, wait_for_topics
from stream_app.cli.clients import open_cluster
from stream_app.cli.machine_memory import memory_limit_bytes
from stream_app.cli.restart import NO_RESTARTS, ProcessRestarts
from stream_app.cli.warm_up import warm_up
from stream_app.config import Config
from stream_app.config.memory_bound import MemoryBound, bound_of
from stream_app.errors import (
    OutageError,
    RestartNeededError,
)
from stream_app.worker.ports import Ports
from stream_app.worker.reports import metrics
from stream_app.worker.reports.figures import Figures
from stream_app.worker.reports.observer import Observer
from stream_app.worker.worker import Worker

_TAKEOVER_TIMEOUT_S = 10.0
"""Longest wait for ending a hanging transaction of another transactional id.

It is tried again later; the tasks of this worker wait meanwhile.
"""


def run_worker(
    config: Config,
    should_stop: Callable[[], bool],
    *,
    restarts: ProcessRestarts = NO_RESTARTS,
    was_fenced: bool = False,
    adopts: bool = False,
) -> None:
    """Run one worker until it is asked to stop.

    Args:
        config: The whole configuration.
        should_stop: Says whether the worker was asked to stop; asked repeatedly.
        restarts: The earlier restarts of this process; after one, a missing broker is not taken for a wrong address.
        was_fenced: Whether it restarted itself because it had been fenced.
        adopts: Whether to accept records of other writers in the output topics.

    Raises:
        ArebaError: See `stream_app.errors`.
    """
    with open_observer(config, SystemClock()) as observer:
        report_restarts(restarts, observer.figures, was_fenced=was_fenced)
        restarted = any(restarts)
        _run_observed(config, should_stop, observer, restarted=restarted, was_fenced=was_fenced, adopts=adopts)


def report_restarts(restarts: ProcessRestarts, figures: Figures, *, was_fenced: bool) -> None:
    """Report how often this process restarted itself within the last hour, and whether it was fenced last."""
    recent = restarts.recent(time.time())
    for cause, times in (("error", recent.by_errors), ("outage", recent.by_outages)):
        figures.set(metrics.RECENT_RESTARTS, len(times), cause=cause)
    figures.set(metrics.FENCED, was_fenced)


@contextmanager
def open_observer(config: Config, clock: Clock) -> Iterator[Observer]:
    """Yield the observer that the worker reports to; with `worker.http_port`, serve its pages meanwhile.

    Raises:
        ConfigurationError: The port is in use.
    """
    port = config.worker.http_port
    if port is None:
        yield Observer(clock)
        return
    from stream_app.worker.reports.http import PageServer, pages_of  # noqa: PLC0415  (Prometheus' client takes half a second)

    observer = Observer(clock, publishes=True)
    with closing(PageServer(config.worker.http_host, port, pages_of(observer))):
        yield observer


def _run_observed(
    config: Config,
    should_stop: Callable[[], bool],
    observer: Observer,
    *,
    restarted: bool,
    was_fenced: bool,
    adopts: bool,
) -> None:
    cluster = open_cluster(config)
    found = wait_for_topics(config, cluster, should_stop, restarted=restarted)
    if found is None:
        return
    schemas = wait_for_schemas(config, should_stop, restarted=restarted)
    if schemas is None:
        return
    config, names = schemas
    settings = config.task_settings()
    bound = bound_of(config, settings, topic_plan.largest_batch_bytes(found[config.topics.labels]))
    report_memory(bound, found[config.topics.progress].partitions, *memory_limit_bytes(), observer.figures)
    servers = config.kafka.bootstrap_servers
    outages = Outages(servers, config.kafka.all.get("ssl.ca.location"))
    instance = config.application.instance
    named = {"client.id": instance, "group.instance.id": instance}
    consumer = {**config.kafka.all, **config.kafka.consumer, **named}
    source = KafkaSource(servers, config.group_id, consumer, outages)
    producer = {**config.kafka.all, **config.kafka.producer}
    transaction = KafkaTransaction(servers, config.transactional_id, producer, outages)

    def open_transaction(transactional_id: str) -> KafkaTransaction:
        return KafkaTransaction(servers, transactional_id, producer, outages, _TAKEOVER_TIMEOUT_S)

    ports = Ports(
        source,
        transaction,
        cluster,
        SystemClock(),
        open_transaction,
        lambda: outages.is_suspected,
        outages.since_answer_s,
        names,
        lambda: outages.because,
    )
    try:
        with _initialising(transaction):
            warm_up(settings, should_stop, observer)
        Worker(config, ports, observer, was_fenced=was_fenced, adopts=adopts).run(should_stop)
    except RestartNeededError as error:
        if outages.was_recent or not cluster.broker_count(RETRY_S):
            raise OutageError(str(error)) from error
        raise


@contextmanager
def _initialising(transaction: Transaction) -> Iterator[None]:
    """End what the previous process left open while the body runs: the coordinator takes half a second for it.

    Raises:
        ArebaError: See `Transaction.initialise`.
    """

    def initialise() -> bool:
        transaction.initialise()
        return True

    initialised = transaction.start(initialise)
    yield
    initialised()


def report_memory(bound: MemoryBound, tasks: int, limit_bytes: int, limit_name: str, figures: Figures) -> None:
    """Report how much memory a worker that has all tasks may take, and how much there is; warn if it is too little."""
    total, logger = bound.total(tasks), getLogger("areba.worker")
    figures.set(metrics.MEMORY_BOUND, total)
    figures.set(metrics.MEMORY_LIMIT, limit_bytes)
    log_lines.MEMORY_BOUND.log(logger, bound=total, tasks=tasks, parts=bound.text(tasks))
    if total > limit_bytes:
        log_lines.MEMORY_ABOVE_LIMIT.log(logger, bound=total, limit=limit_bytes, limit_name=limit_name)
