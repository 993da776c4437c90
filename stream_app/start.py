"""Puts the parts together for the `areba` command: clients from the configuration, checks before the first record."""

import fcntl
import gc
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from stream_app import __version__, codec
from stream_app import topics as topic_plan
from stream_app.config import Config, TaskSettings
from stream_app.dead_letters import Replayed, Selection, list_letters, places_of, replay, show_letter, time_of
from stream_app.errors import ConfigurationError, StateError, TopicError, UnknownOutcomeError
from stream_app.kafka import (
    KafkaCluster,
    KafkaSender,
    KafkaSource,
    KafkaTransaction,
    Outages,
    SystemClock,
)
from stream_app.native import cache_folder
from stream_app.observe import Observer
from stream_app.ports import Clock, TopicInfo, TopicPartition
from stream_app.promote import promote
from stream_app.records import RESUME, Act, Commit, Example, Label, RawRecords

LOG = logging.getLogger("areba")

RETRY_S = 1.0
"""Between two looks for a broker at start."""

ATTEMPT_S = 5.0
"""One look: three of a cluster's addresses may be dead, each for a second, before one answers."""

COMPILE_TIMEOUT_S = 300.0
"""Compiling everything takes some 60 s on a slow core; two workers may have to take turns."""


def run_worker(
    config: Config, should_stop: Callable[[], bool], *, restarted: bool = False, was_fenced: bool = False
) -> None:
    """Check the topics, compile, join the group, work.

    Args:
        config: The whole configuration.
        should_stop: Asked again and again.
        restarted: Whether this process started afresh by itself: a missing broker is then no wrong setting.
        was_fenced: Whether it did so because it had been fenced.

    Raises:
        ArebaError: See errors.py.
    """
    with _observed(config, SystemClock()) as observer:
        _run_observed(config, should_stop, observer, restarted=restarted, was_fenced=was_fenced)


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
    from stream_app.health import HealthObserver, HealthServer, Page, ready_page  # noqa: PLC0415
    from stream_app.metrics import metrics_page  # noqa: PLC0415  (its client takes half a second)

    observer = HealthObserver(clock)
    pages: Mapping[str, Callable[[], Page]] = {
        "/metrics": metrics_page(observer, (config.topics.examples, config.topics.labels)),
        "/ready": partial(ready_page, observer),
    }
    with closing(HealthServer(config.worker.http_host, port, pages)):
        yield observer


def _run_observed(
    config: Config, should_stop: Callable[[], bool], observer: Observer, *, restarted: bool, was_fenced: bool
) -> None:
    from stream_app.worker import Ports, Worker  # noqa: PLC0415  (Torch takes seconds; other commands do without)

    cluster = KafkaCluster(config.kafka.bootstrap_servers, config.kafka.all)
    found = _wait_for_topics(config, cluster, should_stop, restarted=restarted)
    if found is None:
        return
    warm_up(config.task_settings(), should_stop)
    outages = Outages()
    servers = config.kafka.bootstrap_servers
    source = KafkaSource(servers, config.group_id, {**config.kafka.all, **config.kafka.consumer}, outages)
    largest = {"message.max.bytes": str(topic_plan.largest_message_bytes(found, config.topics))}
    producer = {**config.kafka.all, **largest, **config.kafka.producer}
    transaction = KafkaTransaction(servers, config.transactional_id, producer, outages)
    ports = Ports(source, transaction, cluster, SystemClock(), lambda: outages.lasting)
    Worker(config, ports, observer, was_fenced=was_fenced).run(should_stop)


def connect(config: Config) -> KafkaCluster:
    """The administrative client of a configuration, for tools.

    Raises:
        ConfigurationError: No broker answers.
    """
    return KafkaCluster(config.kafka.bootstrap_servers, config.kafka.all).answering()


def create_topics(config: Config, partitions: int, replication: int) -> list[str]:
    """Create the topics that are missing; a line for each that is there then.

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
    return [f"{name}: {topic.partitions} partitions" for name, topic in found.items()]


def check_topics(config: Config, cluster: KafkaCluster) -> Mapping[str, TopicInfo]:
    """The topics of a configuration, checked.

    Raises:
        TopicError: One line for each thing that is wrong with them.
    """
    found = cluster.topics(config.topics)
    lines = topic_plan.check(
        found,
        config.topics,
        max_clock_lead_ms=config.join.max_clock_lead_ms,
        max_record_bytes=config.limits.max_record_bytes,
    )
    if lines:
        raise TopicError(lines)
    return found


def _wait_for_topics(
    config: Config, cluster: KafkaCluster, should_stop: Callable[[], bool], *, restarted: bool
) -> Mapping[str, TopicInfo] | None:
    """Be patient with a broker that is not up yet, not with topics that are wrong; None when asked to stop."""
    deadline = time.monotonic() + config.worker.start_timeout_ms / 1000
    said = False
    while not should_stop():
        left_s = deadline - time.monotonic()
        problem = f"no Kafka broker answers at {config.kafka.bootstrap_servers}"
        if cluster.broker_count(min(ATTEMPT_S, max(left_s, RETRY_S))):
            try:
                return check_topics(config, cluster)
            except UnknownOutcomeError as error:
                problem = str(error)
        if left_s <= 0:
            line = f"kafka.bootstrap_servers: {problem} (waited {config.worker.start_timeout_ms} ms)"
            raise UnknownOutcomeError(line) if restarted else ConfigurationError(line)
        if not said:
            LOG.warning("waiting for a Kafka broker at %s", config.kafka.bootstrap_servers)
            said = True
        time.sleep(max(0.0, min(RETRY_S, left_s)))
    return None


def warm_up(settings: TaskSettings, should_stop: Callable[[], bool] = lambda: False) -> None:
    """Compile (or load from the cache) what the configured streams need, one process at a time, before joining.

    A member of the group that compiles in mid-flow would let its streams wait.
    """
    from stream_app.task import Task  # noqa: PLC0415  (as above)

    lock = cache_folder() / "lock"
    with lock.open("w") as handle:
        if not _wait_for_lock(handle.fileno(), should_stop):
            return
        LOG.info("loading compiled code; where there is none yet, compiling takes about a minute")
        start = time.monotonic()
        small = settings.model_copy(update={"unknown_streams": "model"})
        task = Task(0, small, ("examples", "labels"))
        names = list(settings.streams) or ["warm-up"]
        shapes = {name: (settings.streams[name].features if name in settings.streams else None) or 2 for name in names}
        for _ in range(2):
            task.step(*_rehearsal(shapes))
        seconds = time.monotonic() - start
    gc.collect()
    gc.freeze()  # modules stay for good: a full collection that visits them stops a round for tens of milliseconds
    LOG.info("compiled code is ready (%.1f s)", seconds)


def _wait_for_lock(descriptor: int, should_stop: Callable[[], bool]) -> bool:
    """Whether we have it: not when asked to stop."""
    deadline = time.monotonic() + COMPILE_TIMEOUT_S
    while not should_stop():
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ConfigurationError(
                    "another process holds the lock of the compile cache; set AREBA_CACHE_DIR"
                ) from None
            time.sleep(0.1)
        else:
            return True
    return False


def _rehearsal(shapes: dict[str, int]) -> tuple[RawRecords, RawRecords]:
    """A few examples of each stream and their labels."""
    examples = [
        codec.encode(Example(name, f"{name}-{number}"[:64], [float(number % 2)] * features))
        for name, features in shapes.items()
        for number in range(4)
    ]
    labels = [codec.encode(Label(name, f"{name}-{number}"[:64], number % 2)) for name in shapes for number in range(4)]
    return _raw(examples), _raw(labels)


def _raw(values: list[bytes]) -> RawRecords:
    numbers = np.arange(1, len(values) + 1, dtype=np.int64)
    return RawRecords(numbers, numbers.copy(), [None] * len(values), values)


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
    from stream_app.rebuild import READ_TIMEOUT_S, progress_tail  # noqa: PLC0415  (as above)
    from stream_app.recommit import chosen_tasks  # noqa: PLC0415

    cluster = connect(config)
    partition = TopicPartition(config.topics.progress, task)
    chosen_tasks(cluster, config, [task])
    tail = progress_tail(cluster, partition)
    last = tail[-1] if tail else None
    if not isinstance(last, Commit) or last.tripped is None:
        raise StateError(f"task {task} is not stopped by the breaker: nothing to resume")
    act = Act(sequence=last.sequence + 1, kind=RESUME, engine=__version__, text="")
    with closing(open_sender(config)) as sender:
        sender.send(partition.topic, None, codec.encode(act), 0, partition=task)
        sender.flush(READ_TIMEOUT_S)
    return f"task {task} goes on; it had stopped after: {last.tripped}"


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
    from stream_app.verify import verify  # noqa: PLC0415  (only this command needs it)

    cluster = connect(config)
    columns = (TextColumn("checking partitions"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
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
    found = check_topics(config, cluster)
    largest = {"message.max.bytes": str(topic_plan.largest_message_bytes(found, config.topics))}
    settings = {**config.kafka.all, **largest, **config.kafka.producer}

    def open_transaction(transactional_id: str) -> KafkaTransaction:
        transaction = KafkaTransaction(config.kafka.bootstrap_servers, transactional_id, settings)
        transaction.initialise()
        return transaction

    columns = (TextColumn("sending back"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
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
