"""`areba resume`, `promote`, `erase`, `reset` and `repartition`: records that change what the application does."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from stream_app.cli.commands.options import CONFIG_OPTION, TASK_OPTION
from stream_app.terminal import say

if TYPE_CHECKING:
    from stream_app.config import Config


@click.command()
@click.argument("stream")
@CONFIG_OPTION
def resume(stream: str, path: Path) -> None:
    """Let STREAM continue, which the breaker has stopped.

    Correct its producer first. The command writes a mark after the last example of the stream's partition, with that
    example's timestamp, and the stream continues with the records after the mark. The records that came while the
    stream was stopped are dead letters `stream-stopped`, which `areba dlq resend` sends back. The command prints the
    mark's offset. The exit status is 3 if the breaker has not stopped the stream.

    \b
    Examples:
      areba resume pumps -c my.yaml
      areba dlq resend --reason stream-stopped -c my.yaml
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin.marks import resume as write_marks  # noqa: PLC0415  (see run)
    from stream_app.cli.clients import open_sender  # noqa: PLC0415
    from stream_app.cli.topic_setup import open_checked  # noqa: PLC0415

    application = open_checked(path)
    with closing(open_sender(application.config)) as sender:
        for place, name, offset, reason in write_marks(application, sender, stream):
            say(f"{place.topic}[{place.partition}] offset {offset}: {name} continues; it was stopped: {reason}")


@click.command()
@click.argument("stream")
@click.argument("learner", required=False)
@click.option("--threshold", help="Threshold instead of LEARNER, written as the setting: `costs`, `probability: 0.3`.")
@CONFIG_OPTION
@click.option(
    "--partition",
    type=click.IntRange(0),
    help="Partition of the stream's records, if its producers do not use Java's default partitioner.",
)
def promote(stream: str, learner: str | None, threshold: str | None, path: Path, partition: int | None) -> None:
    """Make LEARNER the champion of STREAM, or change its threshold.

    The command writes a mark after the last example of the stream's partition, with that example's timestamp; a stream
    with lanes gets a mark in each lane. The mark takes effect at exactly this place, at once and regardless of event
    time. LEARNER predicts the examples after the mark, or the threshold decides their classes. Examples before the mark
    keep their champion, also in their outcomes, and their class. The mark is part of the input, so a restored task
    meets it at the same record. A promoted threshold holds until the next one, or until the threshold in the file
    changes. The command prints the mark's offset. The exit status is 2 if there is no such stream or learner, or if the
    stream cannot have the threshold.

    \b
    Examples:
      areba promote pumps larger -c my.yaml
      areba promote pumps --threshold 'probability: 0.3' -c my.yaml
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin import marks  # noqa: PLC0415  (see run)
    from stream_app.cli.clients import open_sender  # noqa: PLC0415
    from stream_app.cli.topic_setup import open_checked  # noqa: PLC0415

    if (learner is None) == (threshold is None):
        raise click.UsageError("Say either LEARNER or --threshold.")
    application = open_checked(path)
    _refuse_partition_of_lanes(application.config, stream, partition)
    with closing(open_sender(application.config)) as sender:
        for name in application.config.names_of(stream):
            if threshold is not None:
                place, offset, decides = marks.decide(application, sender, name, threshold, partition)
                what = f"the threshold of {name} is {decides}"
            else:
                place, offset = marks.promote(application, sender, name, learner or "", partition)
                what = f"{learner} is the champion of {name}"
            say(f"{place.topic}[{place.partition}] offset {offset}: {what} from here on")


def _refuse_partition_of_lanes(config: "Config", stream: str, partition: int | None) -> None:
    if partition is not None and len(config.names_of(stream)) > 1:
        raise click.UsageError(f"--partition: {stream} has lanes in several partitions; name a lane as STREAM.")


@click.command()
@click.argument("stream")
@CONFIG_OPTION
@click.option("--id", "ids", multiple=True, help="Id of an example; may be given several times.")
@click.option("--ids", "file", type=click.File(encoding="utf-8"), help="File with an id on each line; - is the input.")
@click.option(
    "--partition",
    type=click.IntRange(0),
    help="Partition of the stream's records, if its producers do not use Java's default partitioner.",
)
def erase(stream: str, path: Path, ids: Sequence[str], file: TextIO | None, partition: int | None) -> None:
    """Erase examples of STREAM from what the application keeps.

    Stop the producers of these examples and labels first. The command writes marks after the last example of the
    stream's partition, while the workers run. At a mark, pending examples end as `evicted`, waiting labels become dead
    letters `orphan-label`, closed ids are forgotten, and the queues of the learners lose the examples; models keep what
    they have learned. The task then writes new snapshots, and the event `purged` says that no older snapshot is needed.
    The marks have SHA-256 digests of the ids. Kafka alone deletes the records of examples, labels, predictions,
    outcomes and dead letters. The command prints the offsets of the marks, and does not know the ids: the event
    `erased` in the log of a worker says how much there was. The exit status is 2 if there is no such stream or no id is
    given, and 3 if the breaker has stopped the stream.

    \b
    Examples:
      areba erase pumps --id pump-7 --id pump-8 -c my.yaml
      areba erase pumps --ids ids.txt -c my.yaml
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin.marks import erase as write_marks  # noqa: PLC0415  (see run)
    from stream_app.admin.marks import ids_by_name  # noqa: PLC0415
    from stream_app.cli.clients import open_sender  # noqa: PLC0415
    from stream_app.cli.topic_setup import open_checked  # noqa: PLC0415

    every = [*ids, *(line for each in file or () if (line := each.rstrip("\r\n")))]
    application = open_checked(path)
    _refuse_partition_of_lanes(application.config, stream, partition)
    for name, own_ids in ids_by_name(application.config, stream, every).items():
        with closing(open_sender(application.config)) as sender:
            place, offsets = write_marks(application, sender, name, own_ids, partition)
        where = f"{place.topic}[{place.partition}] offsets {offsets[0]} to {offsets[-1]}"
        say(f"{where}: marks for {len(own_ids):,} ids of {name}")
    say("the event `erased` in the log of its worker says how many of them the task had")
    settings = application.config.task_settings()
    name = application.config.names_of(stream)[0]
    own = [name for name, learner in settings.of_stream(name).learners.items() if ":" in learner.method]
    if own:
        say(f"what your own classes keep is not erased: {', '.join(own)}")
    say("delete exported models and checkpoints of areba verify that were written before, and write them again")


@click.command()
@click.argument("stream")
@CONFIG_OPTION
@TASK_OPTION
@click.option("--dry-run", is_flag=True, help="Only print what would be lost.")
def reset(stream: str, path: Path, task: int | None, *, dry_run: bool) -> None:
    """Delete the state of STREAM, so that it starts again.

    The stream loses its number of features, its models and its open examples. Use the command if the first example of a
    stream had the wrong number of features. Stop all workers first; otherwise the exit status is 3. Of a stream with
    lanes, all lanes start again that have begun.

    \b
    Examples:
      areba reset pumps -c my.yaml --dry-run
      areba reset pumps -c my.yaml
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin.reset import reset as reset_stream  # noqa: PLC0415  (see run)
    from stream_app.cli.clients import open_application  # noqa: PLC0415

    for line in reset_stream(open_application(path), stream, task, dry_run=dry_run):
        say(line)


@click.command()
@CONFIG_OPTION
@click.option("--to", "partitions", type=click.IntRange(2), required=True, help="The new number of partitions.")
@click.option("--dry-run", is_flag=True, help="Only print what would move.")
def repartition(path: Path, partitions: int, *, dry_run: bool) -> None:
    """Move the application to a larger number of partitions.

    The number must be a multiple of the present one. Each stream moves with its models, pending examples, waiting
    labels, closed ids and sums, and its outputs are the same as if there had always been so many partitions. Stop the
    producers, let the workers process what has come, and stop all workers first; otherwise the exit status is 3. The
    command also gives all topics the new partitions. If it was ended before its last line, run it again: workers do not
    start until then. Records that a producer sends later with the former number of partitions become dead letters
    `moved-stream`, which `areba dlq resend` sends to the right partition.

    \b
    Examples:
      areba repartition -c my.yaml --to 16 --dry-run
      areba repartition -c my.yaml --to 16
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin.repartition import repartition as move  # noqa: PLC0415  (see run)
    from stream_app.cli.clients import open_application  # noqa: PLC0415

    for line in move(open_application(path), partitions, dry_run=dry_run):
        say(line)
