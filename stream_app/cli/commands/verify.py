"""`areba verify` and `areba explain`: check what the application has published."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from stream_app.cli.commands.options import CONFIG_OPTION, JSON_OPTION, TASK_OPTION, TASKS_OPTION
from stream_app.cli.commands.progress import progress_bar
from stream_app.errors import ConfigurationError, StateError
from stream_app.terminal import say


@click.command()
@CONFIG_OPTION
@click.option(
    "--rerun/--no-rerun",
    default=True,
    show_default=True,
    help="Compute everything again, and compare every output, every digest and the final models bit by bit.",
)
@click.option(
    "--models",
    type=(click.IntRange(0), str),
    multiple=True,
    metavar="TASK DIGEST",
    help="Compare the models of a task with the digest that a worker logged at its clean stop "
    "(stopped task=... models=...).",
)
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File in which a run without findings records where it ended; the next run continues there.",
)
@click.option(
    "--partial",
    is_flag=True,
    help="Accept that records were deleted, and that neither this run nor the runs of its checkpoint covered all "
    "remaining inputs.",
)
@TASKS_OPTION
@JSON_OPTION
def verify(
    path: Path,
    models: Sequence[tuple[int, str]],
    checkpoint: Path | None,
    tasks: Sequence[int],
    *,
    rerun: bool,
    partial: bool,
    as_json: bool,
) -> None:
    """Check that every record was processed exactly once.

    The command reads only the topics. Findings name topic, partition and offset: examples without a prediction or out
    of order, labels without an outcome, missing or changed dead letters, commit records that do not follow one another,
    metrics that do not follow from predictions and labels, and any output that a second run does not reproduce. The
    first line says what was checked. If inputs have expired, the check begins at the oldest usable snapshot. Records
    that were deleted and cannot be checked are one finding for each partition; with `--partial`, they are a note. The
    exit status is 1 if there is a finding, or if remaining inputs were not covered, unless `--partial` is given.

    \b
    Examples:
      areba verify -c my.yaml
      areba verify -c my.yaml --checkpoint verify.checkpoint
      areba verify -c my.yaml --no-rerun
      areba verify -c my.yaml --task 0 --checkpoint verify-0.checkpoint
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.cli.clients import connect  # noqa: PLC0415  (see run)
    from stream_app.cli.schemas import load_with_schemas  # noqa: PLC0415  (see run)
    from stream_app.verify.verify import verify as verify_topics  # noqa: PLC0415

    if models and not rerun:
        raise ConfigurationError("--models needs the second run: omit --no-rerun")
    config = load_with_schemas(path)
    cluster = connect(config)
    with progress_bar("checking partitions") as on_progress:
        report = verify_topics(
            cluster,
            config,
            rerun=rerun,
            models=dict(models),
            checkpoint=checkpoint,
            partial=partial,
            tasks=tasks,
            on_progress=on_progress,
        )
    if as_json:
        say(json.dumps(report.to_plain()))
    else:
        report.show()
    sys.exit(0 if report.ok and (partial or not report.is_partial) else 1)


@click.command()
@click.argument("stream")
@click.argument("id_", metavar="ID")
@CONFIG_OPTION
@TASK_OPTION
@JSON_OPTION
def explain(stream: str, id_: str, path: Path, task: int | None, *, as_json: bool) -> None:
    """Predict a past example again with the state of that moment.

    If its stream has columns, a line for each column says which features its value became, and by how much the
    champion's score would have been lower without it (with `missing: mean` as a missing value, a number without it as
    its mean). The examples in the champion's queues that are nearest follow, three of each class.

    The exit status is 1 if the bits differ from the published bits or the example became a dead letter, and 3 if the
    state cannot be rebuilt, or if retention has deleted the example or what was published.

    \b
    Examples:
      areba explain pumps pump-4711 -c my.yaml
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin import explain as past  # noqa: PLC0415  (see run)
    from stream_app.cli.clients import open_application  # noqa: PLC0415

    try:
        explanation = past.explain(open_application(path), stream, id_, task)
    except past.DeadExampleError as error:
        say(json.dumps({"is_same": False, "problem": str(error)}) if as_json else str(error))
        sys.exit(1)
    for line in [json.dumps(explanation.to_plain())] if as_json else explanation.lines():
        say(line)
    sys.exit(0 if explanation.is_same else StateError.exit_code if explanation.deleted else 1)
