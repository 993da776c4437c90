"""`areba reset`: let a stream start again as if it were new: its dimension, models and join state are dropped.

It is meant for a stream whose dimension was fixed by a wrong first example, or whose model learned from wrong labels.
The act is written to progress, so every restore, `areba verify` and `areba state list` apply it. The task's next
batch closes the pending examples and waiting labels of the stream, see `leftovers`. No worker may run, see
`progress.writer`.
"""

from collections.abc import Iterator

from stream_app import __version__
from stream_app.admin.models import Application
from stream_app.admin.progress.writer import ProgressWriter, progress_writer
from stream_app.admin.saved_models.import_model import newest_task
from stream_app.config import MAX_HELD
from stream_app.errors import ConfigurationError
from stream_app.pipeline.leftovers import Leftovers
from stream_app.pipeline.task import Task
from stream_app.progress_records import RESET, Act


def reset(application: Application, stream: str, task: int | None, *, dry_run: bool = False) -> Iterator[str]:
    """Let a stream start again; yield lines that say what happens to its pending examples and waiting labels.

    Without a `task`, the name of the stream decides. Of a stream with lanes, those start again that have begun. A dry
    run only yields the lines.

    Raises:
        ConfigurationError: The task has no such stream, or the next transaction cannot take what the resets leave open.
        StateError: Workers run, another command has started, or the task cannot be rebuilt; nothing was written.
        UnknownOutcomeError: The broker did not answer in time.
    """
    done: list[str] = []
    problem: _NoSuchStreamError | None = None
    with progress_writer(application, dry_run=dry_run) as writer:
        for name in application.config.names_of(stream):
            number = application.task_of(name, task)
            try:
                done += _reset(application, writer, name, number, dry_run=dry_run)
            except _NoSuchStreamError as error:
                problem = error
    if problem is not None and not done:
        raise problem
    yield from done


class _NoSuchStreamError(ConfigurationError):
    """The task has no such stream."""


def _reset(
    application: Application, writer: ProgressWriter, stream: str, number: int, *, dry_run: bool
) -> Iterator[str]:
    writer.begin(number)
    known, sequence = newest_task(application, number)
    left, features = _leftovers(known, number, stream)
    writer.write(number, [Act(sequence + 1, RESET, __version__, stream)])
    yield f"stream {stream!r} of task {number} ({features} features) {'would start' if dry_run else 'starts'} again"
    yield (
        f"its next batch closes {len(left.offsets):,} pending examples (outcome evicted) and {len(left.labels):,} "
        "waiting labels (dead letter orphan-label); `areba dlq resend` sends dead letters back"
    )


def _leftovers(known: Task | None, number: int, stream: str) -> tuple[Leftovers, int]:
    """Return what a reset leaves open in a stream, and the stream's number of features.

    Raises:
        _NoSuchStreamError: The task has no such stream.
        ConfigurationError: The next transaction cannot take what the resets leave open.
    """
    names = known.stream_names if known is not None else ()
    if known is None or stream not in names:
        there = ", ".join(f"{name!r}" for name in names) or "none yet"
        raise _NoSuchStreamError(f"task {number} has no stream {stream!r}; it has {there}")
    left, features = Leftovers.of(known.stream(stream)), known.stream(stream).features
    if left.records > MAX_HELD:
        raise ConfigurationError(
            f"stream {stream!r} of task {number} has {left.records:,} pending examples and waiting labels, and one "
            f"transaction closes at most {MAX_HELD:,}. Start a worker, let pairs of `advance` marks close the oldest, "
            f"{known.settings.join.max_closings_per_record:,} each, stop the worker, and then reset this stream"
        )
    if known.reset_records and known.reset_records + left.records > MAX_HELD:
        raise ConfigurationError(
            f"task {number}: its next batch must close {known.reset_records:,} records of streams that were reset "
            f"before; {stream!r} has {left.records:,} more, and one transaction closes at most {MAX_HELD:,}. "
            "Start a worker, send a record to the task, stop the worker, and then reset this stream"
        )
    return left, features
