"""`areba reset`: a stream begins anew, as when its first record comes: dimension, models and all that it remembers.

It is for a stream whose dimension was fixed by a wrong first example, or whose model learned from wrong labels. The
act is written to progress, so every restore, `areba verify` and `areba state rebuild` go through it. What the stream
held is closed by the task's next batch, see `leftovers`. A running worker reads progress at its start only: there must
be none.
"""

from collections.abc import Iterator

from stream_app import __version__
from stream_app.admin.history import READ_TIMEOUT_S
from stream_app.admin.import_model import newest_task
from stream_app.admin.models import Place
from stream_app.backends.base import Sender
from stream_app.config import MAX_HELD
from stream_app.errors import ConfigurationError
from stream_app.pipeline.leftovers import leftovers_of
from stream_app.records import RESET, Act
from stream_app.serialization import codec


def reset(place: Place, sender: Sender, stream: str, task: int | None, *, dry_run: bool = False) -> Iterator[str]:
    """Let a stream begin anew; lines that say what becomes of what it holds.

    Args:
        place: The application.
        sender: To its brokers.
        stream: Its name.
        task: Its task's number, if the name does not decide.
        dry_run: Whether to only say so.

    Raises:
        ConfigurationError: The task has no such stream, or earlier resets have left it enough for one transaction.
        StateError: Workers run, or the task cannot be restored; nothing was written.
        UnknownOutcomeError: The broker fell silent.
    """
    number = place.task_of(stream, task)
    if not dry_run:
        place.check_nobody_works()
    known, sequence = newest_task(place, number)
    names = known.stream_names if known is not None else ()
    if known is None or stream not in names:
        there = ", ".join(f"{name!r}" for name in names) or "none yet"
        raise ConfigurationError(f"task {number} has no stream {stream!r}; it has {there}")
    left, features = leftovers_of(known.stream(stream)), known.stream(stream).features
    if known.reset_records and known.reset_records + left.records > MAX_HELD:
        raise ConfigurationError(
            f"task {number}: its next batch closes {known.reset_records:,} records of reset streams, {stream!r} holds "
            f"{left.records:,}, and a transaction takes {MAX_HELD:,}. Start a worker, send the task a record, stop the "
            "worker, and reset this stream then"
        )
    if not dry_run:
        act = Act(sequence + 1, RESET, __version__, stream)
        sender.send(place.config.topics.progress, None, codec.encode(act), place.clock.now_ms(), partition=number)
        sender.flush(READ_TIMEOUT_S)
        place.check_nobody_works()
    yield f"stream {stream!r} of task {number} ({features} features) {'would begin' if dry_run else 'begins'} anew"
    yield (
        f"its next batch closes {len(left.offsets):,} pending examples (outcome evicted) and {len(left.labels):,} "
        "waiting labels (dead letter orphan-label); `areba dlq replay` sends back what was refused"
    )
