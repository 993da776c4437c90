"""Show the whole way of the data on a real Kafka, with a worker killed in mid-flow: `python -m ops.demo`.

    broker -> topics -> two workers, one group -> replay of six streams -> kill, restart -> table, figure, books

It ends by itself, and whatever way it ends, it stops what it started. Everything it writes is in one folder:

    demo.yaml  worker-1.log  worker-2.log  manifest.json  gmean.png
"""

import logging
import os
import secrets
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import click
import numpy as np
import yaml
from numpy.typing import NDArray
from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ops import broker as brokers
from ops import figure, table
from ops.keeper import unless_interrupted
from ops.watch import Watch
from ops.workers import RESTORED, ProcessWorkers, ThreadWorkers, Workers, tasks_of
from producers.label_delay import parse_label_delay
from producers.manifest import Manifest
from producers.plan import Plan, StreamPlan
from producers.replay import replay
from producers.schedule import Schedule, schedule
from producers.sources import parse_source
from stream_app.backends import topics as topic_plan
from stream_app.backends.base import Cluster, Sender
from stream_app.backends.clock import SystemClock
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.memory.sender import EmbeddedSender
from stream_app.backends.partitioner import partition_of
from stream_app.cli.process import configure_logging, run_command
from stream_app.config import Config, load
from stream_app.errors import ArebaError
from stream_app.records import Side
from stream_app.terminal import Terminal
from stream_app.verify.verify import Report, verify

FOLDER = Path(".local/demo")

PARTITIONS = 4

WORKERS = ("worker-1", "worker-2")

SPAN_MS = 4 * 3_600_000
"""Event time of every stream: the last events happen now, the first four hours ago."""

KILL_AT = 0.5
"""Share of the examples predicted when one worker is killed."""

GROUP_TIMEOUT_S = 300.0
"""Until both workers have tasks: the first run compiles, one worker after the other."""

IDLE_TIMEOUT_S = 90.0
"""Longest time without any progress: a killed worker's tasks move after 6 s, and re-processing takes some 20 s."""

REFRESH_S = 0.25
PLAIN_REFRESH_S = 5.0
"""Between two lines where the output is no terminal."""

PLAIN_WIDTH = 110
"""Of lines where the output is no terminal."""

JOIN_TIMEOUT_S = 10.0

INTERRUPTED = 130
"""What shells report for Ctrl-C."""

WATCHER_SETTINGS = {"fetch.wait.max.ms": "250", "queued.max.messages.kbytes": "4096"}
"""A watcher may be a little behind; asking a hundred times a second would cost the workers their processor."""


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """One stream of the demo.

    Attributes:
        source: As `areba-replay` takes it, with `{length}` for the number of examples.
        length: Examples, and in the short form.
        delay: Of its labels.
        unlabelled_share: Of labels that never come.
        settings: Its section of the configuration.
        note: For the figure.
    """

    source: str
    length: int
    short_length: int
    delay: str
    unlabelled_share: float
    settings: Mapping[str, Any]
    note: str


STREAMS = (
    StreamSpec(
        "fraud:limit={length}", 40_000, 4_000, "lognormal:4m,0.7", 0.01, {"features": 30, "learning_rate": 0.0001}, ""
    ),
    StreamSpec(
        "forest:limit={length}", 20_000, 2_000, "uniform:1m-6m", 0.02, {"features": 54, "learning_rate": 0.01}, ""
    ),
    StreamSpec(
        "mnist:limit={length}",
        6_060,
        400,
        "exponential:2m",
        0.02,
        {"features": 784, "learning_rate": 0.001, "hidden": [512, 512], "l2": 0.01},
        "7 against 2",
    ),
    StreamSpec(
        "sine:imbalance=1,drift=posterior,length={length},seed=1",
        20_000,
        2_000,
        "fixed:100ev",
        0.02,
        {"features": 2, "learning_rate": 0.01},
        "",
    ),
    StreamSpec(
        "circle:imbalance=1,drift=likelihood,length={length},seed=2",
        20_000,
        2_000,
        "fixed:1m",
        0.02,
        {"features": 2, "learning_rate": 0.01},
        "",
    ),
    StreamSpec(
        "sea:imbalance=10,drift=prior,length={length},seed=3",
        20_000,
        2_000,
        "positive=uniform:10s-1m,negative=exponential:3m",
        0.02,
        {"features": 2, "learning_rate": 0.01},
        "",
    ),
)

RATE, SHORT_RATE = 2_500.0, 1_500.0
"""Examples a second, of all streams together: slow enough to watch, fast enough for three minutes."""


def main(*, bootstrap_servers: str | None = None, short: bool = False) -> int:
    """Run the demo; the exit status: 0, or 1 when it failed or the books are off, or 130 when it was interrupted.

    Args:
        bootstrap_servers: A Kafka that runs already.
        short: Smaller streams.
    """
    console = Terminal()
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    logging.getLogger().setLevel(logging.WARNING)
    # the client's own lines tell nothing that the demo does not tell: a broker that has just started is asked twice
    logging.getLogger("stream_app.backends.kafka").setLevel(logging.CRITICAL)
    with _signals() as interruption:
        try:
            return _run(console, interruption, bootstrap_servers, short=short)
        except KeyboardInterrupt:
            console.print("interrupted; everything that was started has been stopped")
            return INTERRUPTED
        except ArebaError as error:
            for line in str(error).splitlines():
                console.print(line, style="red")
            return error.exit_code


# Signals --------------------------------------------------------------------------------------------------------------


class _Interruption:
    """SIGINT and SIGTERM become a KeyboardInterrupt, once; never while something is being started or stopped."""

    def __init__(self) -> None:
        self._held = False
        self._asked = False

    def ask(self, _number: int, _frame: FrameType | None) -> None:
        """The handler of the signals."""
        if self._asked:
            return
        self._asked = True
        if not self._held:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let a signal wait until the end of the block."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._asked:
            raise KeyboardInterrupt

    def ignore(self) -> None:
        """We are stopping already."""
        self._held = self._asked = True


@contextmanager
def _signals() -> Iterator[_Interruption]:
    interruption = _Interruption()
    numbers = (signal.SIGINT, signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before = {number: signal.signal(number, interruption.ask) for number in numbers}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# Set-up ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _World:
    """Where it runs: the cluster as a tool sees it, one for watching, a sender, and how workers are started."""

    cluster: Cluster
    watching: Cluster
    sender: Sender
    workers: Workers


def _run(console: Terminal, interruption: _Interruption, bootstrap_servers: str | None, *, short: bool) -> int:
    with ExitStack() as stack:
        chosen = stack.enter_context(brokers.choose(bootstrap_servers, tell=console.print))
        stack.callback(interruption.ignore)
        folder = stack.enter_context(unless_interrupted(_folder()))
        config = _config(folder, chosen.bootstrap_servers)
        world = _world(config, folder, chosen.bootstrap_servers)
        stack.callback(world.sender.close)
        plan = _plan(config, short=short)
        world.cluster.create(topic_plan.plan(config.topics, PARTITIONS), 1)
        console.print(f"Topics: {config.topics.examples}, ... with {PARTITIONS} partitions. Files: {folder}")
        stack.callback(world.workers.stop)
        stack.callback(interruption.ignore)
        with interruption.held():
            started = [f"{name} ({world.workers.start(name)})" for name in WORKERS]
        console.print(f"Workers: {' and '.join(started)}, one consumer group")
        _wait_for_group(console, world.workers)
        watch = Watch(world.watching, config.topics, PARTITIONS)
        stack.callback(watch.close)
        show = _Show(console, watch, plan)
        sending = _Sending(plan, world.sender, show)
        stack.callback(sending.stop)
        stack.callback(interruption.ignore)
        sending.start()
        _watch(show, sending, world.workers, interruption)
        manifest_path = folder / "manifest.json"
        sending.result().save(manifest_path)
        with console.status("Balancing the books from the topics ..."):
            report = verify(world.cluster, config, [manifest_path])
        return _conclude(show, report, sending.result(), folder, config)


def _folder() -> Path:
    """A new one; its name is in all names on the cluster, which others may use too."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder = FOLDER.absolute() / f"{stamp}-{secrets.token_hex(2)}"
    folder.mkdir(parents=True)
    return folder


def _config(folder: Path, bootstrap_servers: str | None) -> Config:
    """The configuration of this run; its names are new, so that a second run meets nothing of the first."""
    name = f"demo-{folder.name}"
    data: dict[str, Any] = {
        "application": {"id": name},
        "kafka": {
            "topic_prefix": f"{name}-",
            # the least that brokers allow by default: how long a killed worker's tasks stand still
            "consumer": {"session.timeout.ms": 6_000},
        },
        "worker": {"commit_interval_ms": 50},
        "metrics": {"every_labels": 50},
        "predictions": "all",
        "learners": {"areba": {"method": "areba", "budget": 20}, "baseline": {"method": "baseline"}},
        "streams": {spec.source.partition(":")[0]: dict(spec.settings) for spec in STREAMS},
    }
    if bootstrap_servers:
        data["kafka"]["bootstrap_servers"] = bootstrap_servers
    path = folder / "demo.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return load(path, _environment())


def _environment() -> dict[str, str]:
    """Ours, but for the brokers: those that were chosen are in the file."""
    names = ("AREBA__KAFKA__BOOTSTRAP_SERVERS", "AREBA_KAFKA__BOOTSTRAP_SERVERS")
    return {name: value for name, value in os.environ.items() if name not in names}


def _world(config: Config, folder: Path, bootstrap_servers: str | None) -> _World:
    if bootstrap_servers is None:
        log = EmbeddedBroker(SystemClock())
        cluster = EmbeddedCluster(log)
        return _World(cluster, cluster, EmbeddedSender(log), ThreadWorkers(config, log))
    settings = dict(config.kafka.all)
    return _World(
        cluster=KafkaCluster(bootstrap_servers, settings).require_broker(),
        watching=KafkaCluster(bootstrap_servers, {**settings, **WATCHER_SETTINGS}),
        sender=KafkaSender(bootstrap_servers, settings),
        workers=ProcessWorkers(folder / "demo.yaml", folder, _environment()),
    )


def _plan(config: Config, *, short: bool) -> Plan:
    """All streams, each spread over the same span of event time."""
    streams = []
    for spec in STREAMS:
        length = spec.short_length if short else spec.length
        source = parse_source(spec.source.format(length=length))
        streams.append(
            StreamPlan(
                stream=source.stream,
                data=source.data,
                delay=parse_label_delay(spec.delay),
                unlabelled_share=spec.unlabelled_share,
                interval_ms=SPAN_MS // len(source.data),
            )
        )
    rate = SHORT_RATE if short else RATE
    return Plan(tuple(streams), seed=1, topic_prefix=config.kafka.topic_prefix, rate=rate)


def _wait_for_group(console: Terminal, workers: Workers) -> None:
    """Until every task has an owner and every worker a task.

    Raises:
        ArebaError: A worker ended, or it took too long.
    """
    deadline = time.monotonic() + GROUP_TIMEOUT_S
    with console.status(
        "Waiting for both workers to compile (the first run: a minute or two) and to join the group ..."
    ):
        while True:
            tasks = {name: tasks_of(workers.lines(name)) for name in WORKERS}
            if all(tasks.values()) and sum(map(len, tasks.values())) == PARTITIONS:
                break
            _check(workers)
            if time.monotonic() > deadline:
                raise ArebaError(f"the workers did not form a group within {GROUP_TIMEOUT_S:.0f} s")
            time.sleep(REFRESH_S)
    owners = "; ".join(f"{name} has partitions {_numbers(tasks[name])}" for name in WORKERS)
    console.print(f"Group: {owners}")


def _check(workers: Workers) -> None:
    problem = workers.failed()
    if problem is not None:
        raise ArebaError(problem)


def _numbers(tasks: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(tasks)))


# Sending --------------------------------------------------------------------------------------------------------------


class _Stopped(Exception):  # noqa: N818  (no error: we were asked to)
    """The replay was told to stop."""


class _Sending:
    """The replayer, in a thread of its own."""

    def __init__(self, plan: Plan, sender: Sender, show: "_Show") -> None:
        self._plan = plan
        self._sender = sender
        self._show = show
        self._stop = threading.Event()
        self._manifest: Manifest | None = None
        self._problem: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def _run(self) -> None:
        try:
            self._manifest = replay(self._plan, self._sender, SystemClock(), self._progress, self._sleep)
        except _Stopped:
            return
        except Exception as error:  # noqa: BLE001  (`result` tells)
            self._problem = error

    def _progress(self, sent: int, _total: int) -> None:
        self._show.sent = sent
        if self._stop.is_set():
            raise _Stopped

    def _sleep(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise _Stopped

    @property
    def done(self) -> bool:
        """Whether all is sent. Raises what went wrong."""
        if self._problem is not None:
            raise self._problem
        return self._manifest is not None

    def result(self) -> Manifest:
        """What was sent."""
        if self._manifest is None:
            raise ArebaError("the replay has not ended")
        return self._manifest

    def stop(self) -> None:
        """Send no more."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_TIMEOUT_S)


# What people see ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Totals:
    """How many records every partition is sent, in all and by the number of records sent so far."""

    columns: NDArray[np.int64]  # index `2 * partition + side` of each record, in the order of sending
    counts: Counter[int] = field(default_factory=Counter)

    @classmethod
    def of(cls, plan: Plan, planned: Schedule) -> "_Totals":
        """Where Java's partitioner sends each record."""
        places = np.array([partition_of(stream.stream.encode(), PARTITIONS) for stream in plan.streams], np.int64)
        columns = 2 * places[planned.streams] + planned.sides
        return cls(columns, Counter(columns.tolist()))

    def end(self, partition: int, side: Side) -> int:
        """Records that the partition has in the end."""
        return self.counts[2 * partition + side]

    def sent(self, records: int) -> NDArray[np.int64]:
        """Records of each partition (both sides) after so many records in all, int64 `[partitions]`."""
        counts = np.bincount(self.columns[:records], minlength=2 * PARTITIONS).astype(np.int64)
        return counts[0::2] + counts[1::2]


class _Show:
    """The live view: bars, what happened, and a row for each stream and learner."""

    def __init__(self, console: Terminal, watch: Watch, plan: Plan) -> None:
        self.console = console
        self.watch = watch
        self.sent = 0
        self.kills: dict[str, int] = {}
        planned = schedule(plan)
        self.totals = _Totals.of(plan, planned)
        self.examples_total = sum(stream.events for stream in plan.streams)
        self.records_total = len(planned)
        self.streams = tuple(stream.stream for stream in plan.streams)
        self._bars = Progress(
            TextColumn("{task.description:>9}", markup=False),
            BarColumn(None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._sent_bar = self._bars.add_task("sent", total=self.records_total)
        self._done_bar = self._bars.add_task("processed", total=self.records_total)
        self._plain_at_s = 0.0

    @contextmanager
    def live(self) -> Iterator[Live | None]:
        """Draw on a terminal; elsewhere a line now and then does."""
        if not self.console.is_terminal:
            yield None
            return
        with Live(self._view(), console=self.console, refresh_per_second=4, transient=True) as live:
            yield live

    def update(self, live: Live | None) -> None:
        """Show where we are."""
        self._set(self._sent_bar, self.sent)
        self._set(self._done_bar, self.watch.processed)
        if live is not None:
            live.update(self._view())
        elif time.monotonic() >= self._plain_at_s:
            self._plain_at_s = time.monotonic() + PLAIN_REFRESH_S
            counts = f"sent {self.sent:,} of {self.records_total:,} records, processed {self.watch.processed:,}"
            self.console.print("; ".join(filter(None, (counts, table.plain(self.rows())))), soft_wrap=True)

    def _set(self, bar: TaskID, value: int) -> None:
        self._bars.update(bar, completed=value)

    def say(self, text: str, style: str = "") -> None:
        """Something happened."""
        self.console.print(text, style=style, soft_wrap=True)

    def rows(self) -> list[table.LiveRow]:
        """Streams in the plan's order, learners as they are configured."""
        sent = self.totals.sent(self.sent)
        return [
            table.LiveRow(
                curve.latest,
                max(
                    0,
                    int(sent[self.watch.partition_of[stream]]) - sum(self.watch.ends[self.watch.partition_of[stream]]),
                ),
            )
            for stream in self.streams
            for (name, _), curve in self.watch.curves.items()
            if name == stream
        ]

    def _view(self) -> Group:
        return Group(table.live(self.rows()), self._bars)

    @property
    def finished(self) -> bool:
        """Whether the group has committed everything that is sent, closing marks included."""
        return all(
            self.watch.ends[number] == (self.totals.end(number, Side.EXAMPLES), self.totals.end(number, Side.LABELS))
            for number in range(PARTITIONS)
        )

    @property
    def predicted_share(self) -> float:
        """Of all examples."""
        return sum(self.watch.examples().values()) / self.examples_total


def _watch(show: _Show, sending: _Sending, workers: Workers, interruption: _Interruption) -> None:
    """Look on until all is committed; kill a worker half-way.

    Raises:
        ArebaError: A worker ended by itself, the replay failed, or nothing moves any more.
    """
    moved_s, processed, restorations = time.monotonic(), -1, _Restorations(workers)
    with show.live() as live:
        while True:
            show.watch.poll()
            show.update(live)
            if sending.done and show.finished:
                break
            _check(workers)
            if not show.kills and show.predicted_share >= KILL_AT:
                restorations.forget()
                _kill_one(show, workers, interruption)
            elif show.kills:
                restorations.tell(show)
            if show.watch.processed != processed:
                moved_s, processed = time.monotonic(), show.watch.processed
            elif time.monotonic() - moved_s > IDLE_TIMEOUT_S:
                raise ArebaError(f"nothing was processed for {IDLE_TIMEOUT_S:.0f} s; see the workers' logs")
            time.sleep(REFRESH_S)
        show.watch.poll()
    if not show.kills:
        show.say("No worker was killed: all was over before half of it was seen", "yellow")


class _Restorations:
    """Says from the workers' logs when all tasks are restored, after each move of the group."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._told: dict[str, int] = {}

    def _found(self) -> dict[str, list[tuple[int, int]]]:
        """Task and re-processed records of every restoration, by worker."""
        return {
            name: [
                (int(match[1]), int(match[3])) for line in self._workers.lines(name) if (match := RESTORED.search(line))
            ]
            for name in WORKERS
        }

    def forget(self) -> None:
        """What was restored so far is no news."""
        self._told = {name: len(found) for name, found in self._found().items()}

    def tell(self, show: "_Show") -> None:
        """Say it once all tasks are restored."""
        news = {name: found[self._told.get(name, 0) :] for name, found in self._found().items()}
        tasks = {task: records for found in news.values() for task, records in found}
        if len(tasks) == PARTITIONS:
            self.forget()
            names = " and ".join(name for name in WORKERS if news[name])
            show.say(
                f"All tasks are restored, by {names}: {sum(tasks.values()):,} records re-processed, "
                "each commit's digest compared",
                "magenta",
            )


def _kill_one(show: _Show, workers: Workers, interruption: _Interruption) -> None:
    """SIGKILL the worker that has most to do, and start it again."""
    busy = Counter(
        {
            name: sum(show.watch.partition_of.get(stream) in tasks_of(workers.lines(name)) for stream in show.streams)
            for name in WORKERS
        }
    )
    name = busy.most_common(1)[0][0]
    show.kills = dict(show.watch.examples())
    with interruption.held():
        done = workers.kill(name)
        again = workers.start(name)
    predicted = sum(show.kills.values())
    show.say(
        f"{name} was {done} after {predicted:,} of {show.examples_total:,} examples, and started again ({again}); "
        "its tasks stand still until the group notices",
        "bold magenta",
    )


# The end --------------------------------------------------------------------------------------------------------------


def _conclude(show: _Show, report: Report, manifest: Manifest, folder: Path, config: Config) -> int:
    console = show.console
    rows = [
        table.FinalRow(curve.latest, report.figures[stream].predictions[learner])
        for stream in show.streams
        for (name, learner), curve in show.watch.curves.items()
        if name == stream and stream in report.figures
    ]
    console.print(table.final(rows))
    report.show(console)
    path = figure.draw(
        _panels(show, manifest),
        folder / "gmean.png",
        "G-mean along each stream",
        f"prequential, fading factor {config.metrics.fading_factor:g}; {show.examples_total:,} examples of "
        f"{len(show.streams)} streams at the same time, each label after its delay",
    )
    console.print(f"Figure: {path}", soft_wrap=True)
    return 0 if report.ok else 1


def _panels(show: _Show, manifest: Manifest) -> Sequence[figure.Panel]:
    notes = {spec.source.partition(":")[0]: spec for spec in STREAMS}
    panels = []
    for stream in manifest.streams:
        curves = [
            figure.Curve(learner, curve.latest.champion, curve.positions, curve.gmeans)
            for (name, learner), curve in show.watch.curves.items()
            if name == stream.stream
        ]
        positive = 100 * stream.examples.positive / stream.examples.sent
        delay = max(
            (curve.latest.delay_ms_p50 or 0 for (name, _), curve in show.watch.curves.items() if name == stream.stream)
        )
        note = f"{positive:.2g} % positive, median delay {table.duration(delay)}"
        extra = notes[stream.stream].note
        panels.append(
            figure.Panel(
                stream=stream.stream,
                curves=curves,
                drifts={drift.kind: drift.step for drift in stream.drifts},
                kills=[show.kills[stream.stream]] if stream.stream in show.kills else [],
                note=f"{extra}, {note}" if extra else note,
            )
        )
    return panels


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--bootstrap-servers", help="Brokers of a running Kafka; by default a local Kafka is started.")
@click.option("--short", is_flag=True, help="Run with shorter streams.")
def demo(bootstrap_servers: str | None, short: bool) -> None:
    """Show the whole way of the data: six streams, two workers, and a worker that is killed half-way."""
    configure_logging()
    sys.exit(main(bootstrap_servers=bootstrap_servers, short=short))


if __name__ == "__main__":
    run_command(demo)
