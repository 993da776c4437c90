"""`areba resume`, `areba promote` and `areba reset`: records that change what the application does."""

import os
from contextlib import closing
from pathlib import Path

import click

from stream_app.cli.commands.options import CONFIG_OPTION, TASK_OPTION
from stream_app.config import load
from stream_app.errors import ErrorCode, StateError
from stream_app.terminal import say


@click.command()
@CONFIG_OPTION
@click.option("--task", type=click.IntRange(0), required=True, help="Number of the task that the breaker stopped.")
def resume(path: Path, task: int) -> None:
    """Resume a task that the breaker stopped.

    The exit status is 3 if the breaker has not stopped the task.

    \b
    Examples:
      areba resume -c my.yaml --task 3
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin.history import READ_TIMEOUT_S, progress_tail, resume_after, tripped_by  # noqa: PLC0415
    from stream_app.admin.recommit import chosen_tasks  # noqa: PLC0415  (see run)
    from stream_app.backends.base import TopicPartition  # noqa: PLC0415
    from stream_app.cli.clients import connect, open_sender  # noqa: PLC0415
    from stream_app.serialization import codec  # noqa: PLC0415

    config = load(path, os.environ)
    cluster = connect(config)
    partition = TopicPartition(config.topics.progress, task)
    chosen_tasks(cluster, config, [task])
    tail = progress_tail(cluster, partition)
    act = resume_after(tail)
    if act is None:
        raise StateError(
            f"task {task}: the breaker has not stopped it, so there is nothing to resume", ErrorCode.TASK_NOT_TRIPPED
        )
    with closing(open_sender(config)) as sender:
        sender.send(partition.topic, None, codec.encode(act), 0, partition=task)
        sender.flush(READ_TIMEOUT_S)
    say(f"task {task} continues; the breaker had stopped it: {tripped_by(tail)}")


@click.command()
@click.argument("stream")
@click.argument("learner")
@CONFIG_OPTION
@click.option(
    "--partition",
    type=click.IntRange(0),
    help="Partition of the stream's records, if its producers do not use Java's default partitioner.",
)
def promote(stream: str, learner: str, path: Path, partition: int | None) -> None:
    """Make LEARNER the champion of STREAM from one record on.

    The command writes a mark after the last example of the stream's partition, with that example's timestamp. The
    mark takes effect at exactly this place, at once and regardless of event time. LEARNER predicts the examples after
    the mark. Examples before the mark keep their champion, also in their outcomes. The mark is part of the input, so a
    restored task meets it at the same record. The command prints the mark's offset. The exit status is 2 if
    there is no such stream or learner.

    \b
    Examples:
      areba promote pumps larger -c my.yaml
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin.promote import promote as write_mark  # noqa: PLC0415  (see run)
    from stream_app.backends.clock import SystemClock  # noqa: PLC0415
    from stream_app.cli.clients import connect, open_sender  # noqa: PLC0415
    from stream_app.cli.schemas import load_with_schemas  # noqa: PLC0415
    from stream_app.cli.topic_setup import check_topics  # noqa: PLC0415

    config = load_with_schemas(path)
    cluster = connect(config)
    check_topics(config, cluster)
    with closing(open_sender(config)) as sender:
        place, offset = write_mark(config, cluster, sender, SystemClock(), stream, learner, partition)
    say(f"{place.topic}[{place.partition}] offset {offset}: {learner} is the champion of {stream} from here on")


@click.command()
@click.argument("stream")
@CONFIG_OPTION
@TASK_OPTION
@click.option("--dry-run", is_flag=True, help="Only print what would be lost.")
def reset(stream: str, path: Path, task: int | None, *, dry_run: bool) -> None:
    """Delete the state of STREAM, so that it starts again.

    The stream loses its number of features, its models and its open examples. Use the command if the first example of a
    stream had the wrong number of features. Stop all workers first; otherwise the exit status is 3.

    \b
    Examples:
      areba reset pumps -c my.yaml --dry-run
      areba reset pumps -c my.yaml
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin.reset import reset as reset_stream  # noqa: PLC0415  (see run)
    from stream_app.cli.clients import open_place, open_sender  # noqa: PLC0415

    place = open_place(path)
    with closing(open_sender(place.config)) as sender:
        for line in reset_stream(place, sender, stream, task, dry_run=dry_run):
            say(line)
