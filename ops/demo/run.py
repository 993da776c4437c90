"""The course of the demo.

Everything that it writes is in one folder:

    demo.yaml  worker-1.log  worker-2.log  gmean.png
"""

import logging
import secrets
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ops import broker as brokers
from ops import figure
from ops.demo.conclusion import comparisons, final_table
from ops.demo.curves import CurveModel
from ops.demo.interruption import Interruption, interruptible
from ops.demo.replaying import ReplayThread
from ops.demo.streams import CONFIGURATION_FILE, configuration, environment, replay_plan
from ops.demo.view import PARTITIONS, View, panels_of
from ops.keeper import unless_interrupted
from ops.workers import LIVE, ProcessWorkers, ThreadWorkers, Workers, tasks_of
from stream_app.backends import topics as topic_plan
from stream_app.backends.base import Sender
from stream_app.backends.clock import SystemClock
from stream_app.backends.following import FollowableCluster
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.memory.sender import EmbeddedSender
from stream_app.config import Config
from stream_app.errors import ArebaError
from stream_app.monitor.watcher import Watcher
from stream_app.producers.manifest import Manifest
from stream_app.terminal import Terminal
from stream_app.verify.verify import Report, verify

FOLDER = Path(".local/demo")

WORKERS = ("worker-1", "worker-2")

KILL_AT = 0.5
"""Share of the examples that is predicted when a worker is killed."""

GROUP_TIMEOUT_S = 300.0
"""Time until both workers have tasks: in the first run they compile, one after the other."""

IDLE_TIMEOUT_S = 90.0
"""Longest time without progress: the tasks of a killed worker move after 6 s, and restoring them takes some 20 s."""

REFRESH_S = 0.25

PLAIN_WIDTH = 110
"""Width of lines if the output is not a terminal."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells report it."""

CURVE_POINTS = 4_000
"""Points that are kept of each learner's curve, for the figure."""


def main(*, bootstrap_servers: str | None = None, short: bool = False) -> int:
    """Run the demo.

    Args:
        bootstrap_servers: Addresses of a Kafka that already runs; None to start one.
        short: Whether to use smaller streams.

    Returns:
        The exit status: 0, 1 if the demo failed or the verification found something, or 130 if it was interrupted.
    """
    console = Terminal()
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    logging.getLogger().setLevel(logging.WARNING)
    # a broker that has just started is asked twice, and the client complains about the first attempt
    logging.getLogger("areba.kafka").setLevel(logging.CRITICAL)
    with interruptible() as interruption:
        try:
            return _run(console, interruption, bootstrap_servers, short=short)
        except KeyboardInterrupt:
            console.print("interrupted; everything that was started has been stopped")
            return INTERRUPTED
        except ArebaError as error:
            for line in str(error).splitlines():
                console.print(line, style="red")
            return error.exit_code


@dataclass(frozen=True, slots=True)
class _Connections:
    """The clients of the demo.

    Attributes:
        cluster: For administration, the live view and verification.
        sender: For the replay.
        workers: Starts, kills and stops the workers.
    """

    cluster: FollowableCluster
    sender: Sender
    workers: Workers


def _run(console: Terminal, interruption: Interruption, bootstrap_servers: str | None, *, short: bool) -> int:
    with ExitStack() as stack:
        chosen = stack.enter_context(brokers.choose(bootstrap_servers, tell=console.print))
        stack.callback(interruption.ignore)
        folder = stack.enter_context(unless_interrupted(_folder()))
        config = configuration(folder, chosen.bootstrap_servers)
        connections = _connect(config, folder, chosen.bootstrap_servers)
        stack.callback(connections.sender.close)
        plan = replay_plan(config, short=short)
        connections.cluster.create(topic_plan.plan(config.topics, PARTITIONS), 1)
        console.print(f"Topics: {config.topics.examples}, ... with {PARTITIONS} partitions. Files: {folder}")
        stack.callback(connections.workers.stop)
        stack.callback(interruption.ignore)
        with interruption.held():
            started = [f"{name} ({connections.workers.start(name)})" for name in WORKERS]
        console.print(f"Workers: {' and '.join(started)}, one consumer group")
        _wait_for_group(console, connections.workers)
        model = CurveModel(config.streams, CURVE_POINTS)
        watcher = Watcher(connections.cluster, config, SystemClock(), model=model)
        stack.callback(watcher.close)
        watcher.catch_up()
        view = View(console, watcher, model, plan)
        sending = ReplayThread(plan, connections.sender, view.note_sent)
        stack.callback(sending.stop)
        stack.callback(interruption.ignore)
        sending.start()
        _watch(view, sending, connections.workers, interruption)
        with console.status("Verifying the topics ..."):
            report = verify(connections.cluster, config)
        return _conclude(view, report, sending.result(), folder, config)


def _folder() -> Path:
    """Create a new folder; its name is part of all names on the cluster, which others may use, too."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder = FOLDER.absolute() / f"{stamp}-{secrets.token_hex(2)}"
    folder.mkdir(parents=True)
    return folder


def _connect(config: Config, folder: Path, bootstrap_servers: str | None) -> _Connections:
    """Return clients of Kafka, or of an in-process broker if no Kafka was found."""
    if bootstrap_servers is None:
        log = EmbeddedBroker(SystemClock())
        return _Connections(EmbeddedCluster(log), EmbeddedSender(log), ThreadWorkers(config, log))
    settings = dict(config.kafka.all)
    return _Connections(
        cluster=KafkaCluster(bootstrap_servers, settings).require_broker(),
        sender=KafkaSender(bootstrap_servers, settings),
        workers=ProcessWorkers(folder / CONFIGURATION_FILE, folder, environment()),
    )


def _wait_for_group(console: Terminal, workers: Workers) -> None:
    """Wait until every task has a worker and every worker has a task.

    Raises:
        ArebaError: A worker ended, or the group was not complete in time.
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


def _watch(view: View, sending: ReplayThread, workers: Workers, interruption: Interruption) -> None:
    """Show the progress until everything is committed, and kill a worker half-way.

    Raises:
        ArebaError: A worker ended by itself, the replay failed, or nothing is processed any more.
    """
    moved_s, processed, restorations = time.monotonic(), -1, _Restorations(workers)
    with view.live() as live:
        while True:
            view.watcher.update()
            view.update(live)
            if sending.done and view.finished:
                break
            _check(workers)
            if not view.kills and view.predicted_share >= KILL_AT:
                restorations.restart()
                _kill_one(view, workers, interruption)
            elif view.kills:
                restorations.report(view)
            if view.processed != processed:
                moved_s, processed = time.monotonic(), view.processed
            elif time.monotonic() - moved_s > IDLE_TIMEOUT_S:
                raise ArebaError(f"nothing was processed for {IDLE_TIMEOUT_S:.0f} s; see the workers' logs")
            time.sleep(REFRESH_S)
        view.watcher.update()
    if not view.kills:
        view.say("No worker was killed: everything was processed before the view had half of it", "yellow")


class _Restorations:
    """Finds out from the workers' logs when all tasks are live again after a rebalance of the group."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._known: dict[str, int] = {}

    def _found(self) -> dict[str, list[tuple[int, int | None]]]:
        """Return every task that became live, by worker, with its re-processed records; None if it just continued."""
        return {
            name: [
                (int(match[1]), None if match[2] is None else int(match[2]))
                for line in self._workers.lines(name)
                if (match := LIVE.search(line))
            ]
            for name in WORKERS
        }

    def restart(self) -> None:
        """Ignore the restorations so far."""
        self._known = {name: len(found) for name, found in self._found().items()}

    def report(self, view: View) -> None:
        """Print a message if all tasks are live."""
        news = {name: found[self._known.get(name, 0) :] for name, found in self._found().items()}
        tasks = {task: records for found in news.values() for task, records in found}
        if len(tasks) == PARTITIONS:
            self.restart()
            restored = [records for records in tasks.values() if records is not None]
            names = " and ".join(name for name in WORKERS if news[name])
            view.say(
                f"All tasks are live again, on {names}: {len(restored)} restored with {sum(restored):,} records "
                f"re-processed and each commit's digest compared, {len(tasks) - len(restored)} continued as they were",
                "magenta",
            )


def _kill_one(view: View, workers: Workers, interruption: Interruption) -> None:
    """Kill the worker with most streams by SIGKILL, and start it again."""
    tasks = [stream.task for stream in view.figures().values()]
    busy = Counter({name: sum(task in tasks_of(workers.lines(name)) for task in tasks) for name in WORKERS})
    name = busy.most_common(1)[0][0]
    view.kills = dict(view.predicted())
    with interruption.held():
        done = workers.kill(name)
        again = workers.start(name)
    predicted = sum(view.kills.values())
    view.say(
        f"{name} was {done} after {predicted:,} of {view.examples_total:,} examples, and started again ({again}); "
        "its tasks stand still until the group notices",
        "bold magenta",
    )


def _conclude(view: View, report: Report, manifest: Manifest, folder: Path, config: Config) -> int:
    """Show the table, the report and the figure; return the exit status."""
    console = view.console
    panels = panels_of(view, manifest)
    console.print(final_table([one for stream in view.figures().values() for one in stream.learners]))
    for line in comparisons([panel.curves for panel in panels]):
        console.print(line, soft_wrap=True)
    report.show(console)
    path = figure.draw(
        panels,
        folder / "gmean.png",
        "G-mean along each stream",
        f"prequential, fading factor {config.metrics.fading_factors[0]:g}; {view.examples_total:,} examples of "
        f"{len(view.streams)} streams at the same time, each label after its delay",
        {name: settings.method for name, settings in config.learners.items()},
    )
    console.print(f"Figure: {path}", soft_wrap=True)
    return 0 if report.ok else 1
