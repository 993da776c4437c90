"""Puts the parts together for the `areba` command: clients from the configuration, checks before the first record."""

import fcntl
import gc
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from stream_app.admin.dead_letters import Replayed, Selection, list_letters, places_of, replay, show_letter, time_of
from stream_app.admin.promote import promote
from stream_app.backends import topics as topic_plan
from stream_app.backends.base import CLIENT_FAMILY, Clock, Cluster, TopicInfo, TopicPartition
from stream_app.backends.kafka import (
    KafkaCluster,
    KafkaSender,
    KafkaSource,
    KafkaTransaction,
    Outages,
    SystemClock,
)
from stream_app.backends.partition_count import tasks_of
from stream_app.config import Config, TaskSettings
from stream_app.config.memory_bound import bound_of
from stream_app.errors import (
    ConfigurationError,
    OutageError,
    RestartNeededError,
    StateError,
    TopicError,
    UnknownOutcomeError,
)
from stream_app.jit.cache import base_folder
from stream_app.jit.compiler import reporting_compiled
from stream_app.records import Example, Label, RawRecords
from stream_app.serialization import codec
from stream_app.terminal import Terminal
from stream_app.worker.machine_memory import memory_limit_bytes
from stream_app.worker.observer import Observer

LOG = logging.getLogger("areba")

RETRY_S = 1.0
"""Between two looks for a broker at start."""

OLDER_REPORT_S = 5.0
"""From one line to the next while older workers are waited for."""

TELL_INTERVAL_S = 5.0
"""Between two lines that say that we wait, and for what."""

SHORTEST_ATTEMPT_S = 0.5
"""One look when the patience is nearly at its end."""

ATTEMPT_S = 4.0
"""One look: three of a cluster's addresses may be dead, each for a second, before one answers."""

LOCK_TELL_S = 1.0
"""A wait that is longer is told."""

TAKEOVER_TIMEOUT_S = 10.0
"""Ending what hangs of another transactional id is tried again later; the tasks of this worker wait meanwhile."""

COMPILE_TIMEOUT_S = 300.0
"""Compiling everything takes some 60 s on a slow core; two workers may have to take turns."""

COMPILE_STEP_LIMIT_S = 600.0
"""For one function, before a supervisor may end the process. The largest takes 14 s on a busy core; what was compiled
is lost with the process, so one that is killed too early would begin again for ever."""


def run_worker(
    config: Config,
    should_stop: Callable[[], bool],
    *,
    restarted: bool = False,
    was_fenced: bool = False,
    adopts: bool = False,
) -> None:
    """Check the topics, compile, join the group, work.

    Args:
        config: The whole configuration.
        should_stop: Asked again and again.
        restarted: Whether this process started afresh by itself: a missing broker is then no wrong setting.
        was_fenced: Whether it did so because it had been fenced.
        adopts: Whether records of other writers in the output topics are accepted.

    Raises:
        ArebaError: See errors.py.
    """
    with _observed(config, SystemClock()) as observer:
        _run_observed(config, should_stop, observer, restarted=restarted, was_fenced=was_fenced, adopts=adopts)


@contextmanager
def _observed(config: Config, clock: Clock) -> Iterator[Observer]:
    """Whom the worker tells what happens: a server answers for it from the first moment to the last, if it is wanted.

    Raises:
        ConfigurationError: The port is in use.
    """
    port = config.worker.http_port
    if port is None:
        yield Observer(clock)
        return
    from stream_app.worker.health import HealthObserver  # noqa: PLC0415
    from stream_app.worker.http import PageServer, pages_of  # noqa: PLC0415  (Prometheus' client takes half a second)

    observer = HealthObserver(clock)
    pages = pages_of(observer, (config.topics.examples, config.topics.labels))
    with closing(PageServer(config.worker.http_host, port, pages)):
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
    from stream_app.worker.ports import Ports  # noqa: PLC0415  (Torch takes seconds; other commands do without)
    from stream_app.worker.worker import Worker  # noqa: PLC0415  (Torch takes seconds; other commands do without)

    cluster = _cluster(config)
    found = _wait_for_topics(config, cluster, should_stop, restarted=restarted)
    if found is None:
        return
    settings = config.task_settings()
    _tell_memory(config, settings, found, observer)
    warm_up(settings, should_stop, observer)
    if not wait_for_older_workers(config.group_id, cluster, should_stop):
        return
    outages = Outages()
    servers = config.kafka.bootstrap_servers
    consumer = {**config.kafka.all, **config.kafka.consumer, "client.id": config.application.instance}
    source = KafkaSource(servers, config.group_id, consumer, outages)
    producer = {**config.kafka.all, **config.kafka.producer}
    transaction = KafkaTransaction(servers, config.transactional_id, producer, outages)

    def open_transaction(transactional_id: str) -> KafkaTransaction:
        return KafkaTransaction(servers, transactional_id, producer, outages, TAKEOVER_TIMEOUT_S)

    ports = Ports(
        source, transaction, cluster, SystemClock(), open_transaction, lambda: outages.lasting, outages.silence_s
    )
    try:
        Worker(config, ports, observer, was_fenced=was_fenced, adopts=adopts).run(should_stop)
    except RestartNeededError as error:
        if outages.recent or not cluster.broker_count(RETRY_S):
            raise OutageError(str(error)) from error
        raise


def _tell_memory(config: Config, settings: TaskSettings, found: Mapping[str, TopicInfo], observer: Observer) -> None:
    """Say how much memory a worker with all tasks may take, and how much there is."""
    bound = bound_of(config, settings, topic_plan.largest_batch_bytes(found[config.topics.labels]))
    observer.memory_bound(bound, found[config.topics.progress].partitions, *memory_limit_bytes())


def connect(config: Config) -> KafkaCluster:
    """The administrative client of a configuration, for tools.

    Raises:
        ConfigurationError: No broker answers.
    """
    return _cluster(config).answering()


def _cluster(config: Config) -> KafkaCluster:
    return KafkaCluster(config.kafka.bootstrap_servers, config.kafka.all, config.log_reader_group_id)


def create_topics(config: Config, partitions: int, replication: int = -1) -> list[str]:
    """Create the topics that are missing; a line for each that is there then.

    Args:
        config: The application's.
        partitions: Of each.
        replication: Copies of each partition; -1: as the broker does by default.

    Raises:
        TopicError: Those that are there are not as they should be.
    """
    cluster = connect(config)
    wanted = topic_plan.plan(
        config.topics,
        partitions,
        max_clock_lead_ms=config.join.max_clock_lead_ms,
        max_record_bytes=config.limits.max_record_bytes,
    )
    cluster.create(wanted, replication)
    found = check_topics(config, cluster)
    warn_of_topics(found)
    return [f"{name}: {topic.partitions} partitions" for name, topic in found.items()]


def check_topics(config: Config, cluster: KafkaCluster) -> Mapping[str, TopicInfo]:
    """The topics of a configuration, checked.

    Raises:
        TopicError: One line for each thing that is wrong with them.
    """
    found = cluster.topics(config.topics)
    progress = found.get(config.topics.progress)
    lines = topic_plan.check(
        found,
        config.topics,
        max_clock_lead_ms=config.join.max_clock_lead_ms,
        max_record_bytes=config.limits.max_record_bytes,
        tasks=tasks_of(cluster, progress) if progress is not None else None,
    )
    if lines:
        raise TopicError(lines)
    return found


def warn_of_topics(found: Mapping[str, TopicInfo]) -> None:
    """Log what is no error in the topics, but will be one when a disk fails."""
    for line in topic_plan.warnings(found):
        LOG.warning("%s", line)


def _wait_for_topics(
    config: Config, cluster: KafkaCluster, should_stop: Callable[[], bool], *, restarted: bool
) -> Mapping[str, TopicInfo] | None:
    """Be patient with a broker that is not up yet, not with topics that are wrong; None when asked to stop."""
    deadline = math.inf if restarted else time.monotonic() + config.worker.start_timeout_ms / 1000
    said_s = -math.inf
    while not should_stop():
        left_s = deadline - time.monotonic()  # a look takes half of it, so that the first report comes before the end
        if cluster.broker_count(min(ATTEMPT_S, max(left_s / 2, SHORTEST_ATTEMPT_S))):
            try:
                found = check_topics(config, cluster)
                _check_rights(config, cluster)
            except UnknownOutcomeError as error:
                problem = str(error)
            else:
                warn_of_topics(found)
                return found
        else:
            problem = cluster.silence
        now = time.monotonic()
        if now >= deadline:
            raise ConfigurationError(f"kafka.bootstrap_servers: {problem} (waited {config.worker.start_timeout_ms} ms)")
        if now - said_s >= TELL_INTERVAL_S:
            LOG.warning("waiting for Kafka: %s", problem)
            said_s = now
        time.sleep(min(RETRY_S, deadline - now))
    return None


def wait_for_older_workers(group_id: str, cluster: Cluster, should_stop: Callable[[], bool]) -> bool:
    """Wait for as long as workers of areba 0.x are in the group; False when asked to stop.

    They process by other rules: a task that went back and forth between the two could be restored by neither. They give
    up a task that a worker of this version has committed; the others they would keep.

    Raises:
        TopicError: The broker refuses to tell us.
        UnknownOutcomeError: It did not answer in time.
    """
    said_s = -OLDER_REPORT_S
    while not should_stop():
        older = [client for client in cluster.members(group_id) if not client.startswith(CLIENT_FAMILY)]
        if not older:
            return True
        if time.monotonic() - said_s >= OLDER_REPORT_S:
            LOG.warning(
                "waiting: group %s has %d workers of an older version; stop all of them with SIGTERM",
                group_id,
                len(older),
            )
            said_s = time.monotonic()
        time.sleep(RETRY_S)
    return False


def _check_rights(config: Config, cluster: KafkaCluster) -> None:
    """See that the broker lets us do what a worker does.

    Raises:
        TopicError: One line for each operation that is missing.
    """
    lines = cluster.missing_rights(topic_plan.rights(config.topics), (config.group_id, config.log_reader_group_id))
    if lines:
        raise TopicError(lines)


def warm_up(
    settings: TaskSettings, should_stop: Callable[[], bool] = lambda: False, observer: Observer | None = None
) -> None:
    """Compile (or load from the cache) what the configured streams need, one process at a time, before joining.

    A member of the group that compiles in mid-flow would let its streams wait. Each function that is compiled is a step
    of its own for the observer.

    Raises:
        ConfigurationError: A learner or network of the user's own fails, or the lock is not given up.
    """
    observer = observer or Observer(SystemClock())
    LOG.info("loading compiled code")
    start = time.monotonic()
    try:
        with observer.step("loading compiled code", COMPILE_STEP_LIMIT_S), _no_compiling():
            _rehearse(settings)
    except _NotCompiledError as missing:
        lock = base_folder() / "lock"
        with lock.open("w") as handle:
            if not _wait_for_lock(lock, handle.fileno(), should_stop):
                return
            LOG.info("%s is not compiled yet; compiling takes about a minute", missing)
            with observer.step("compiling", COMPILE_STEP_LIMIT_S), reporting_compiled(observer.progressed):
                _rehearse(settings)
    gc.collect()
    gc.freeze()  # modules stay for good: a full collection that visits them stops a round for tens of milliseconds
    LOG.info("compiled code is ready (%.1f s)", time.monotonic() - start)


class _NotCompiledError(Exception):
    """Code of ours is not in the cache."""


@contextmanager
def _no_compiling() -> Iterator[None]:
    """Load compiled code only.

    Raises:
        _NotCompiledError: There is some to be compiled.
    """
    from numba.core import event  # noqa: PLC0415  (as above; `native` was imported before)

    package = __name__.partition(".")[0]

    class Refusal(event.Listener):  # Numba has no types
        """Told before a function is compiled, when the cache does not have it."""

        def on_start(self, event: Any) -> None:  # noqa: ANN401  (as above)
            function = event.data["dispatcher"].py_func
            if function.__module__.partition(".")[0] == package:
                raise _NotCompiledError(f"{function.__module__}.{function.__name__}")

        def on_end(self, event: Any) -> None:  # noqa: ANN401  (as above)
            """Nothing to do."""

    with event.install_listener("numba:compile", Refusal()):
        yield


def _rehearse(settings: TaskSettings) -> None:
    """Carry a few records through all stages of a task; of streams with equal settings one, since 10,000 take long."""
    from stream_app.pipeline.task import Task  # noqa: PLC0415  (as above)

    task = Task(0, settings.model_copy(update={"unknown_streams": "model"}), ("examples", "labels"))
    kinds = {stream.model_dump_json(): name for name, stream in settings.streams.items()}
    names = list(kinds.values()) or ["warm-up"]
    shapes = {name: (settings.streams[name].features if name in settings.streams else None) or 2 for name in names}
    for _ in range(2):
        task.step(*_rehearsal(shapes))


def _wait_for_lock(lock: Path, descriptor: int, should_stop: Callable[[], bool]) -> bool:
    """Whether we have it: not when asked to stop."""
    begin = time.monotonic()
    told = False
    while not should_stop():
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited_s = time.monotonic() - begin
            if waited_s > COMPILE_TIMEOUT_S:
                raise ConfigurationError(
                    f"another process has held {lock} for {waited_s:.0f} s; end it, or set AREBA_CACHE_DIR"
                ) from None
            if waited_s > LOCK_TELL_S and not told:
                LOG.warning("another process compiles; waiting for %s, at most %g s", lock, COMPILE_TIMEOUT_S)
                told = True
            time.sleep(0.1)
        else:
            return True
    return False


def _rehearsal(shapes: dict[str, int]) -> tuple[RawRecords, RawRecords]:
    """A few examples of each stream and their labels."""
    examples = [
        Example(name, f"{name}-{number}"[:64], [float(number % 2)] * features)
        for name, features in shapes.items()
        for number in range(4)
    ]
    labels = [Label(name, f"{name}-{number}"[:64], number % 2) for name in shapes for number in range(4)]
    return _raw(examples), _raw(labels)


def _raw(records: Sequence[Example | Label]) -> RawRecords:
    numbers = np.arange(1, len(records) + 1, dtype=np.int64)
    keys = [record.stream.encode() for record in records]
    return RawRecords(numbers, numbers.copy(), keys, list(map(codec.encode, records)))


def open_sender(config: Config) -> KafkaSender:
    """To the application's brokers; to be closed."""
    return KafkaSender(config.kafka.bootstrap_servers, {**config.kafka.all, **config.kafka.producer})


def resume_task(config: Config, task: int) -> str:
    """Append a `resume` record for a task that the breaker stopped.

    Raises:
        ConfigurationError: There is no such task, or no broker answers.
        StateError: The task is not stopped.
        UnknownOutcomeError: The broker fell silent.
    """
    from stream_app.admin.history import READ_TIMEOUT_S, progress_tail, resume_after, tripped_by  # noqa: PLC0415  (as above)
    from stream_app.admin.recommit import chosen_tasks  # noqa: PLC0415

    cluster = connect(config)
    partition = TopicPartition(config.topics.progress, task)
    chosen_tasks(cluster, config, [task])
    tail = progress_tail(cluster, partition)
    act = resume_after(tail)
    if act is None:
        raise StateError(f"task {task} is not stopped by the breaker: nothing to resume")
    with closing(open_sender(config)) as sender:
        sender.send(partition.topic, None, codec.encode(act), 0, partition=task)
        sender.flush(READ_TIMEOUT_S)
    return f"task {task} goes on; it had stopped after: {tripped_by(tail)}"


def promote_learner(config: Config, stream: str, learner: str, partition: int | None = None) -> str:
    """Write the mark that makes a learner the champion of a running stream; a line that says where it is.

    Raises:
        ConfigurationError: No broker answers, a topic is not as it should be, or there is no such stream or learner.
        DeliveryError: The broker did not accept the mark.
    """
    cluster = connect(config)
    check_topics(config, cluster)
    with closing(open_sender(config)) as sender:
        place, offset = promote(config, cluster, sender, SystemClock(), stream, learner, partition)
    return f"{place.topic}[{place.partition}] offset {offset}: {learner} is the champion of {stream} from here on"


def verify_books(config: Config, manifests: Sequence[Path], *, rerun: bool, models: Mapping[int, str]) -> int:
    """Print the books, with a progress bar; the exit status."""
    from stream_app.verify.verify import verify  # noqa: PLC0415  (only this command needs it)

    cluster = connect(config)
    columns = (TextColumn("checking partitions"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Terminal(stderr=True), transient=True) as bars:
        bar = bars.add_task("", total=None)
        report = verify(
            cluster,
            config,
            manifests,
            rerun=rerun,
            models=models,
            on_progress=lambda done, total: bars.update(bar, completed=done, total=total),
        )
    report.show()
    return 0 if report.ok else 1


def _selection(
    streams: Sequence[str],
    reasons: Sequence[str],
    partitions: Sequence[int],
    since: str | None,
    until: str | None,
    places: Sequence[str] = (),
) -> Selection:
    now_ms = SystemClock().now_ms()
    return Selection(
        reasons=frozenset(reasons),
        streams=frozenset(streams),
        partitions=frozenset(partitions),
        places=places_of(places),
        since_ms=None if since is None else time_of(since, now_ms),
        until_ms=None if until is None else time_of(until, now_ms),
    )


def list_dead_letters(
    config: Config,
    limit: int,
    *,
    streams: Sequence[str],
    reasons: Sequence[str],
    partitions: Sequence[int],
    since: str | None,
    until: str | None,
) -> Iterator[str]:
    """A line for each dead letter and each reason.

    Raises:
        ConfigurationError: No broker answers, or there is no such reason, partition or time.
    """
    selection = _selection(streams, reasons, partitions, since, until)
    return list_letters(connect(config), config, selection, limit).texts()


def show_dead_letter(config: Config, place: str, *, full: bool) -> Iterator[str]:
    """Everything about one, line by line.

    Raises:
        ConfigurationError: No broker answers, or there is no such dead letter.
    """
    (found,) = places_of([place])
    return show_letter(connect(config), config, found, full=full)


def replay_dead_letters(
    config: Config,
    places: Sequence[str],
    *,
    streams: Sequence[str],
    reasons: Sequence[str],
    partitions: Sequence[int],
    since: str | None,
    until: str | None,
    limit: int | None,
    everything: bool,
    dry_run: bool,
) -> Replayed:
    """Send dead letters back, with a progress bar.

    Raises:
        ConfigurationError: Nothing or something that does not exist was chosen, or no broker answers.
        ArebaError: See errors.py.
    """
    selection = _selection(streams, reasons, partitions, since, until, places)
    if selection.is_everything and not everything:
        raise ConfigurationError("choose what to send back by --reason, --stream, ..., by its place, or --all of it")
    cluster = connect(config)
    check_topics(config, cluster)
    settings = {**config.kafka.all, **config.kafka.producer}

    def open_transaction(transactional_id: str) -> KafkaTransaction:
        transaction = KafkaTransaction(config.kafka.bootstrap_servers, transactional_id, settings)
        transaction.initialise()
        return transaction

    columns = (TextColumn("sending back"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Terminal(stderr=True), transient=True) as bars:
        bar = bars.add_task("", total=None)
        return replay(
            cluster,
            config,
            SystemClock(),
            selection,
            open_transaction,
            limit=limit,
            dry_run=dry_run,
            on_progress=lambda done, total: bars.update(bar, completed=done, total=total),
        )
