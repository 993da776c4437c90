"""The `areba` command. Every subcommand is thin: it reads its options, calls one function, exits with its status."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from rich.progress import track

from stream_app import __version__
from stream_app.cli.process import configure_logging, run_command
from stream_app.config import load
from stream_app.errors import (
    ConfigurationError,
    FencedError,
    OutageError,
    RestartNeededError,
    StateError,
)
from stream_app.terminal import Terminal, say

if TYPE_CHECKING:
    from stream_app.admin.models import Place

RESTART_WINDOW_S = 3600.0
"""`worker.max_restarts` counts those of the last hour."""

BACK_OFF_WINDOW_S = 300.0
"""Restarts so close to one another are put off, each for twice as long."""

LONGEST_PAUSE_S = 60.0
"""A broker that is back is not to wait for us for longer."""

OUTAGES_KEPT = 10
"""Restarts by outages that are remembered: so many in five minutes make the longest pause."""

STOP_LOOK_S = 0.1
"""Between two looks whether to stop."""

CONFIG_OPTION = click.option(
    "-c",
    "--config",
    "path",
    type=click.Path(path_type=Path),
    required=True,
    help="YAML file; AREBA__SECTION__KEY in the environment goes before it.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """Online learning on Kafka streams that are imbalanced, that drift, and whose labels come late."""
    configure_logging()


@cli.command()
@CONFIG_OPTION
@click.option("--restarted-at", multiple=True, type=float, hidden=True, help="When this process has started afresh.")
@click.option("--outage-at", multiple=True, type=float, hidden=True, help="When it did so because of an outage.")
@click.option("--was-fenced", is_flag=True, hidden=True, help="It did so because it had been fenced.")
@click.option("--adopt", "adopts", is_flag=True, help="Accept records of other writers in the output topics.")
def run(path: Path, restarted_at: Sequence[float], outage_at: Sequence[float], was_fenced: bool, adopts: bool) -> None:
    """Run one worker of the consumer group, until SIGTERM or Ctrl-C."""
    from stream_app.cli.start import run_worker  # noqa: PLC0415  (Torch and Numba take seconds; --help should not)

    config = load(path, os.environ)
    stop = _stop_on_signals()
    logging.getLogger("areba").info(
        "areba %s application=%s instance=%s brokers=%s",
        __version__,
        config.application.id,
        config.application.instance,
        config.kafka.bootstrap_servers,
    )
    restarts = Restarts(tuple(restarted_at), tuple(outage_at))
    try:
        run_worker(config, stop, restarted=bool(restarted_at or outage_at), was_fenced=was_fenced, adopts=adopts)
    except RestartNeededError as error:
        if stop():
            raise
        again = ("--adopt",) if adopts else ()
        _start_afresh((str(path), *again), restarts, config.worker.max_restarts, stop, error)


class Restarts(NamedTuple):
    """When this process has started afresh by itself, seconds since 1970: by an error, and by an outage of brokers."""

    by_errors: tuple[float, ...] = ()
    by_outages: tuple[float, ...] = ()

    def lately(self, now: float) -> "Restarts":
        """Those of the last hour, of outages the last ones."""
        errors, outages = (tuple(at for at in times if now - at < RESTART_WINDOW_S) for times in self)
        return Restarts(errors, outages[-OUTAGES_KEPT:])

    def and_now(self, now: float, error: RestartNeededError) -> "Restarts":
        """With this one."""
        if isinstance(error, OutageError):
            return self._replace(by_outages=(*self.by_outages, now))
        return self._replace(by_errors=(*self.by_errors, now))

    def pause_s(self, now: float) -> float:
        """How long to wait before the next one: nothing at first, then 1 s, 2 s, 4 s, ... while they come close."""
        close = sum(now - at < BACK_OFF_WINDOW_S for times in self for at in times)
        return min(LONGEST_PAUSE_S, 2.0 ** (close - 1)) if close else 0.0


def _start_afresh(
    arguments: Sequence[str], restarts: Restarts, max_restarts: int, stop: Callable[[], bool], error: RestartNeededError
) -> None:
    """Become a new process, unless that was done too often of late (or we are to stop): then the error stands."""
    now = time.time()
    recent = restarts.lately(now)
    if not isinstance(error, OutageError) and len(recent.by_errors) >= max_restarts:
        raise error
    pause_s, recent = recent.pause_s(now), recent.and_now(now, error)
    counted = "an outage" if isinstance(error, OutageError) else str(len(recent.by_errors))
    logging.getLogger("areba").warning("%s; starting afresh in %g s (%s)", error, pause_s, counted)
    end = time.monotonic() + pause_s
    while time.monotonic() < end:
        if stop():
            raise error
        time.sleep(STOP_LOOK_S)
    command = [sys.executable, "-m", "stream_app.cli", "run", "-c", *arguments]
    command += [f"--restarted-at={moment:.0f}" for moment in recent.by_errors]
    command += [f"--outage-at={moment:.0f}" for moment in recent.by_outages]
    if isinstance(error, FencedError):
        command.append("--was-fenced")
    os.execv(sys.executable, command)  # noqa: S606  (ourselves)


@cli.group()
def topics() -> None:
    """The topics that an application needs."""


@topics.command("create")
@CONFIG_OPTION
@click.option("--partitions", type=click.IntRange(1, 10_000), default=4, show_default=True)
@click.option("--replication", type=click.IntRange(1, 10), help="Copies; by default the broker's own number.")
def topics_create(path: Path, partitions: int, replication: int | None) -> None:
    """Create those that are missing, with the settings that the promises need."""
    from stream_app.cli.start import create_topics  # noqa: PLC0415  (see run)

    for line in create_topics(load(path, os.environ), partitions, replication or -1):
        say(line)


@topics.command("check")
@CONFIG_OPTION
def topics_check(path: Path) -> None:
    """Say what is wrong with them, all at once."""
    from stream_app.cli.start import check_topics, connect, warn_of_topics  # noqa: PLC0415  (see run)

    config = load(path, os.environ)
    warn_of_topics(check_topics(config, connect(config)))
    say("topics are as they should be")


@cli.command("inspect")
@CONFIG_OPTION
@click.option("--task", "tasks", type=click.IntRange(0), multiple=True, help="Only these; by default all.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of a table.")
def inspect_application(path: Path, tasks: Sequence[int], *, as_json: bool) -> None:
    """What the application is at, from its topics and its group; no worker is asked.

    Exit status 1 when a task is stopped by the breaker or cannot be restored, when records of a stream became dead
    letters within the last hour of event time, when its labels stopped coming, or when it lives in two tasks: why, and
    the command that helps.
    """
    from stream_app.admin.inspect_tasks import inspect  # noqa: PLC0415  (see run)

    place = _place(path)
    watched = partial(track, description="looking at tasks", console=Terminal(stderr=True), transient=True)
    found = inspect(place.cluster, place.config, tasks, watched)
    if as_json:
        for line in found.to_json().splitlines():
            say(line)
    else:
        Terminal().print(found.table())
        for line in found.problems():
            say(line)
    sys.exit(0 if found.ok else 1)


@cli.command()
@CONFIG_OPTION
@click.option("--task", type=click.IntRange(0), required=True, help="Number of the task that the breaker stopped.")
def resume(path: Path, task: int) -> None:
    """Let a task go on that the breaker stopped."""
    from stream_app.cli.start import resume_task  # noqa: PLC0415  (see run)

    say(resume_task(load(path, os.environ), task))


@cli.command()
@click.argument("stream")
@click.argument("learner")
@CONFIG_OPTION
@click.option(
    "--partition",
    type=click.IntRange(0),
    help="Where the stream's records are, if its producers do not use Java's default partitioner.",
)
def promote(stream: str, learner: str, path: Path, partition: int | None) -> None:
    """Make LEARNER the champion of STREAM, from one record on.

    Writes a mark behind the last example of the stream's partition, with that example's timestamp: the merge takes it
    right there, whatever event time the stream is at, and holds nothing up for it. Examples behind the mark are
    predicted by LEARNER; those before it keep the champion that they had, also in their outcomes. The change is part of
    the input: after a crash it is replayed at the same record. Prints the offset of the mark.
    """
    from stream_app.cli.start import promote_learner  # noqa: PLC0415  (see run)

    say(promote_learner(load(path, os.environ), stream, learner, partition))


@cli.group()
def dlq() -> None:
    """Dead letters: what could not be processed, and sending it back after the cause was mended."""


def _selecting(command: Callable[..., None]) -> Callable[..., None]:
    """The options that choose dead letters."""
    moment = "event time: 2026-01-31, 2026-01-31T10:00 (UTC), or 30m, 2h, 7d for so long ago"
    for option in (
        click.option("--until", metavar="TIME", help=f"Before this {moment}."),
        click.option("--since", metavar="TIME", help=f"Not before this {moment}."),
        click.option("--partition", "partitions", type=click.IntRange(0), multiple=True, help="Of this partition."),
        click.option("--stream", "streams", multiple=True, help="Of this stream; may be given several times."),
        click.option("--reason", "reasons", multiple=True, help="With this reason; may be given several times."),
    ):
        command = option(command)
    return command


@dlq.command("list")
@CONFIG_OPTION
@_selecting
@click.option("--limit", type=click.IntRange(0), default=50, show_default=True, help="Show the newest so many.")
def dlq_list(path: Path, limit: int, **chosen: Any) -> None:  # noqa: ANN401  (the options of _selecting)
    """List them, oldest first, and count them by reason."""
    from stream_app.cli.start import list_dead_letters  # noqa: PLC0415  (see run)

    for line in list_dead_letters(load(path, os.environ), limit, **chosen):
        say(line)


@dlq.command("show")
@click.argument("place", metavar="PARTITION:OFFSET")
@CONFIG_OPTION
@click.option("--full", is_flag=True, help="All bytes of the value.")
def dlq_show(place: str, path: Path, *, full: bool) -> None:
    """Show one: where it came from, why, its headers and bytes, and whether it was sent back."""
    from stream_app.cli.start import show_dead_letter  # noqa: PLC0415  (see run)

    for line in show_dead_letter(load(path, os.environ), place, full=full):
        say(line)


@dlq.command("replay")
@click.argument("places", nargs=-1, metavar="[PARTITION:OFFSET]...")
@CONFIG_OPTION
@_selecting
@click.option("--all", "everything", is_flag=True, help="All there are; without it, something has to be chosen.")
@click.option("--limit", type=click.IntRange(1), help="Send no more than so many.")
@click.option("--dry-run", is_flag=True, help="Only say what would be sent.")
def dlq_replay(
    places: Sequence[str],
    path: Path,
    limit: int | None,
    *,
    everything: bool,
    dry_run: bool,
    **chosen: Any,  # noqa: ANN401  (the options of _selecting)
) -> None:
    """Send dead letters back to the topics that they came from, each once, after the cause was mended.

    Key, value, headers and event time are the original ones; further headers say which dead letter a record was. A
    record that was sent back is never sent again, even if this command was killed on the way: run it again. Exit status
    1 when some of those chosen cannot be sent; they are named.
    """
    from stream_app.cli.start import replay_dead_letters  # noqa: PLC0415  (see run)

    config = load(path, os.environ)
    result = replay_dead_letters(config, places, limit=limit, everything=everything, dry_run=dry_run, **chosen)
    for line in result.texts():
        say(line)
    sys.exit(0 if result.ok else 1)


@cli.command()
@CONFIG_OPTION
@click.option(
    "--manifest",
    "manifests",
    type=click.Path(path_type=Path),
    multiple=True,
    help="What a replayer wrote of what it sent; may be given several times.",
)
@click.option(
    "--rerun/--no-rerun",
    default=True,
    show_default=True,
    help="Run all stages again, and compare every output, digest and the final models to the bit.",
)
@click.option(
    "--models",
    type=(click.IntRange(0), str),
    multiple=True,
    metavar="TASK DIGEST",
    help="What a worker logged at its clean stop (stopped task=... models=...), to be compared with a fresh run.",
)
def verify(path: Path, manifests: Sequence[Path], models: Sequence[tuple[int, str]], *, rerun: bool) -> None:
    """Balance the books from the topics alone; exit status 1 when anything is off.

    Every finding names its topic, partition and offset: examples without prediction or out of order, labels without
    outcome, dead letters that are missing or changed, commit records that do not follow one another, metrics that
    predictions and labels do not give, anything that a fresh run would not have written.
    """
    from stream_app.cli.start import verify_books  # noqa: PLC0415  (see run)

    if models and not rerun:
        raise ConfigurationError("--models needs a fresh run to compare with: leave --no-rerun out")
    sys.exit(verify_books(load(path, os.environ), manifests, rerun=rerun, models=dict(models)))


AT_OPTION = click.option(
    "--at",
    callback=lambda _context, _option, text: _offsets(text),
    help="EXAMPLES/LABELS: offsets of a committed point, as the worker's log has them; by default the newest.",
)
TASK_OPTION = click.option("--task", type=click.IntRange(0), help="Its number, if the stream's name does not decide.")


def _offsets(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    examples, slash, labels = text.partition("/")
    if not (slash and examples.isdecimal() and labels.isdecimal()):
        raise click.BadParameter(f"{text!r} is not of the form EXAMPLES/LABELS")
    return int(examples), int(labels)


@cli.group()
def state() -> None:
    """Models of a running or stopped application, as committed; only `import` and `recommit` change something."""


@state.command("list")
@CONFIG_OPTION
@click.option("--task", "tasks", type=click.IntRange(0), multiple=True, help="Only these; by default all.")
def state_list(path: Path, tasks: Sequence[int]) -> None:
    """All streams and learners: method, size, updates, digest."""
    from stream_app.admin import models  # noqa: PLC0415  (see run)

    place = _place(path)
    for task in tasks or range(place.partitions()):
        try:
            rebuilt = models.rebuild(place, task, None)
        except StateError as problem:
            say(problem, err=True)
        else:
            Terminal().print(models.table(place.config, task, rebuilt))


@state.command("rebuild")
@CONFIG_OPTION
@click.option("--task", type=click.IntRange(0), required=True, help="Its number.")
@AT_OPTION
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False), help="Save all its learners here.")
def state_rebuild(path: Path, task: int, at: tuple[int, int] | None, output: Path | None) -> None:
    """A task as it was at a committed point: re-processed from the newest snapshot before it, every digest compared."""
    from stream_app.admin import models  # noqa: PLC0415  (see run)

    place = _place(path)
    rebuilt = models.rebuild(place, task, at)
    Terminal().print(models.table(place.config, task, rebuilt))
    for file in models.export_all(place.config, task, rebuilt, output) if output else ():
        say(file)


@state.command("export")
@click.argument("stream")
@click.argument("learner")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@CONFIG_OPTION
@TASK_OPTION
@AT_OPTION
def state_export(
    stream: str, learner: str, file: Path, path: Path, task: int | None, at: tuple[int, int] | None
) -> None:
    """Save LEARNER of STREAM as a safetensors FILE that plain Torch reads (see docs/models.md)."""
    from stream_app.admin import models  # noqa: PLC0415  (see run)

    say(models.export(_place(path), stream, learner, file, task, at))


@state.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("stream")
@click.argument("learner")
@CONFIG_OPTION
@TASK_OPTION
def state_import(file: Path, stream: str, learner: str, path: Path, task: int | None) -> None:
    """Let LEARNER of STREAM go on from a FILE of `areba state export`, in a new application or one that is stopped."""
    from stream_app.admin.import_model import import_model  # noqa: PLC0415  (see run)
    from stream_app.cli.start import open_sender  # noqa: PLC0415

    place = _place(path)
    with closing(open_sender(place.config)) as sender:
        for line in import_model(place, sender, file, stream, learner, task):
            say(line)


@state.command("diff")
@click.argument("one", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("two", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def state_diff(one: Path, two: Path) -> None:
    """Compare two exported learners, array by array; exit status 1 when they differ."""
    from stream_app.admin import models  # noqa: PLC0415  (see run)

    lines, equal = models.diff(one, two)
    for line in lines:
        say(line)
    sys.exit(0 if equal else 1)


@state.command("recommit")
@CONFIG_OPTION
@click.option("--task", "tasks", type=click.IntRange(0), multiple=True, help="Only these; by default all.")
@click.option("--dry-run", is_flag=True, help="Only say what would be committed.")
def state_recommit(path: Path, tasks: Sequence[int], *, dry_run: bool) -> None:
    """Commit the group's offsets again, after they were reset, deleted or have expired.

    Each task goes on behind its last commit record, with the bits that it would have had; what is right already stays
    as it is. All workers must be stopped.
    """
    from stream_app.admin.recommit import recommit  # noqa: PLC0415  (see run)

    place = _place(path)
    for line in recommit(place.cluster, place.config, tasks, dry_run=dry_run):
        say(line)


@state.command("skip")
@CONFIG_OPTION
@click.option("--task", "tasks", type=click.IntRange(0), multiple=True, help="Only these; by default all.")
@click.option("--dry-run", is_flag=True, help="Only say what would be lost.")
def state_skip(path: Path, tasks: Sequence[int], *, dry_run: bool) -> None:
    """Let tasks go on without inputs that were deleted before they were processed.

    Each goes on from its newest snapshot, at the first records that are left; what it forgets and skips is told. A task
    that can be restored stays as it is. All workers must be stopped.
    """
    from stream_app.admin.skip import skip  # noqa: PLC0415  (see run)
    from stream_app.cli.start import open_sender  # noqa: PLC0415

    place = _place(path)
    with closing(open_sender(place.config)) as sender:
        for line in skip(place, sender, tasks, dry_run=dry_run):
            say(line)


@cli.command("reset")
@click.argument("stream")
@CONFIG_OPTION
@TASK_OPTION
@click.option("--dry-run", is_flag=True, help="Only say what would be lost.")
def reset_stream(stream: str, path: Path, task: int | None, *, dry_run: bool) -> None:
    """Let STREAM begin anew: its dimension, its models and all that it remembers.

    For a stream whose first example had the wrong number of features. All workers must be stopped.
    """
    from stream_app.admin.reset import reset  # noqa: PLC0415  (see run)
    from stream_app.cli.start import open_sender  # noqa: PLC0415

    place = _place(path)
    with closing(open_sender(place.config)) as sender:
        for line in reset(place, sender, stream, task, dry_run=dry_run):
            say(line)


@cli.command("explain")
@click.argument("stream")
@click.argument("id_", metavar="ID")
@CONFIG_OPTION
@TASK_OPTION
def explain_prediction(stream: str, id_: str, path: Path, task: int | None) -> None:
    """Predict an example of the past again with the state of that moment; exit status 1 unless the bits are equal."""
    from stream_app.admin import models  # noqa: PLC0415  (see run)

    explanation = models.explain(_place(path), stream, id_, task)
    for line in explanation.lines():
        say(line)
    sys.exit(0 if explanation.is_same else 1)


def _place(path: Path) -> "Place":
    from stream_app.admin.models import Place  # noqa: PLC0415
    from stream_app.backends.kafka import SystemClock  # noqa: PLC0415
    from stream_app.cli.start import connect  # noqa: PLC0415  (see run)

    config = load(path, os.environ)
    return Place(config, connect(config), SystemClock())


def _stop_on_signals() -> Callable[[], bool]:
    """Ask to stop at SIGTERM and SIGINT; a second one ends the process at once."""
    asked = threading.Event()

    def ask(number: int, _: FrameType | None) -> None:
        asked.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)
    return asked.is_set


def main() -> None:
    """Run the `areba` command on the arguments of this process."""
    run_command(cli)
