"""Compile the numeric code before the worker joins the group, or load it from the cache.

A worker that compiled after it had joined would let its streams wait for about a minute. The processes of one machine
take turns: the first one compiles while it holds a file lock, and the others then load its result.
"""

import fcntl
import gc
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stream_app import log_lines
from stream_app.backends.clock import SystemClock
from stream_app.config import LearnerSettings, StreamSettings, TaskSettings
from stream_app.errors import ConfigurationError
from stream_app.jit.cache import base_folder, is_read_only
from stream_app.jit.compiler import reporting_compiled
from stream_app.record_columns import RawRecords
from stream_app.records import Example, Label, Mark, MarkKind
from stream_app.serialization import codec
from stream_app.serialization.erased_ids import id_digest
from stream_app.worker.reports.events import StepProgressed
from stream_app.worker.reports.observer import Observer

if TYPE_CHECKING:
    from stream_app.pipeline.task import Task

LOG = logging.getLogger("areba")

LOCK_REPORT_S = 1.0
"""A longer wait for the lock is logged."""

_LOCK_TIMEOUT_S = 300.0
"""Longest wait for the lock: compiling takes some 60 s on a slow core, and several workers may take turns."""

_COMPILE_STEP_LIMIT_S = 600.0
"""Time for one function before a supervisor may end the process.

The largest function takes 14 s on a busy core. What was compiled is lost with the process, so a process that is killed
too early would start again from the beginning forever.
"""


_REHEARSED = (4, 4, 40)
"""Records of each stream in the batches of a rehearsal; for the last one, the tables of the join have to grow."""


def warm_up(
    settings: TaskSettings, should_stop: Callable[[], bool] = lambda: False, observer: Observer | None = None
) -> None:
    """Compile the functions that the configured streams need, or load them from the cache.

    Args:
        settings: The settings of the tasks.
        should_stop: Says whether the worker was asked to stop; asked while another process holds the lock.
        observer: Counts each compiled function as progress.

    Raises:
        ConfigurationError: A user's own learner or network fails, or another process does not release the lock.
    """
    observer = observer or Observer(SystemClock())
    start = time.monotonic()
    gc.disable()  # until everything that lasts is made
    try:
        with observer.step("loading compiled code", _COMPILE_STEP_LIMIT_S), refusing_to_compile():
            _rehearse(settings)
    except NotCompiledError as missing:
        with cache_lock(should_stop) as is_held:
            if not is_held:
                return
            log_lines.COMPILED_CODE_MISSING.log(LOG, function=missing)
            with (
                observer.step("compiling", _COMPILE_STEP_LIMIT_S),
                reporting_compiled(lambda: observer.emit(StepProgressed())),
            ):
                _rehearse(settings)
    finally:
        gc.collect()
        gc.freeze()  # modules are never freed, and a full collection that visits them takes tens of milliseconds
        gc.enable()
    log_lines.COMPILED_CODE_READY.log(LOG, seconds=time.monotonic() - start)


class NotCompiledError(Exception):
    """A function of this package is not in the cache."""


@contextmanager
def refusing_to_compile() -> Iterator[None]:
    """Allow loading from the cache only.

    Raises:
        _NotCompiledError: A function of this package would have to be compiled.
    """
    from numba.core import event  # noqa: PLC0415  (after `stream_app.jit.compiler`, which sets Numba's environment)

    package = __name__.partition(".")[0]

    class Refusal(event.Listener):  # Numba has no types
        """A listener that Numba calls before it compiles a function that is not in the cache."""

        def on_start(self, event: Any) -> None:  # noqa: ANN401  (as above)
            function = event.data["dispatcher"].py_func
            if function.__module__.partition(".")[0] == package:
                raise NotCompiledError(f"{function.__module__}.{function.__name__}")

        def on_end(self, event: Any) -> None:  # noqa: ANN401  (as above)
            """Do nothing."""

    with event.install_listener("numba:compile", Refusal()):
        yield


def _rehearse(settings: TaskSettings) -> None:
    """Carry a few records through all stages of a task, cut a batch, and restore the streams in another task.

    Of all streams with equal settings, one takes part: 10,000 streams would take long.
    """
    # Numba takes a second to import; other commands do without it
    from stream_app.backends.kafka.librdkafka.rehearsal import rehearse  # noqa: PLC0415  (as above)
    from stream_app.pipeline.merge import cut  # noqa: PLC0415  (as above)
    from stream_app.pipeline.task import Task  # noqa: PLC0415  (as above)
    from stream_app.pipeline.transaction_bounds import Room  # noqa: PLC0415  (as above)

    rehearse()
    # the same code reads all formats
    plain: dict[str, object] = {"unknown_streams": "model", "wire_format": None, "schema_ids": {}}
    plain["metrics"] = settings.metrics.model_copy(update={"every_labels": 1})  # a record of metrics is written, too
    settings = settings.model_copy(update=plain)
    task = Task(0, settings, ("examples", "labels"))
    kinds = {stream.model_dump_json(): name for name, stream in settings.streams.items()}
    names = list(kinds.values()) or ["warm-up"]
    streams = {name: settings.of_stream(name) for name in names}
    for count in _REHEARSED:
        examples, labels = _rehearsal_records(streams, count)
        cut(examples.timestamps, labels.timestamps, examples_at_end=True, labels_at_end=True, limit=1)
        batch = task.open(examples, labels)
        task.fitting(batch, Room(0, 0))
        task.run(batch)
    task.core_forms.pack([*task.states(), *task.states()])  # two of each kind are packed together
    restored = Task(0, settings, ("examples", "labels"))
    for state in task.states():
        pending, closed = state.pending_rows(state.pending_arrivals()), state.closed_rows(*state.closed_span())
        restored.load_stream(state.name, *map(dict, (state.core_state(), pending, closed)))
    _rehearse_changes(task, settings, streams)


def _rehearse_changes(task: "Task", settings: TaskSettings, streams: Mapping[str, StreamSettings]) -> None:
    """Let another learner begin while an example of each stream is pending, and erase that example."""
    number = max(_REHEARSED)
    pending = [_rehearsal_example(name, stream, number, 0.5) for name, stream in streams.items()]
    task.step(_raw(pending), _raw([]))
    task.apply_settings(
        settings.model_copy(
            update={
                "streams": {name: _with_another_learner(stream) for name, stream in settings.streams.items()},
                "default_stream": _with_another_learner(settings.default_stream),
            }
        )
    )
    marks = [Mark(one.stream, MarkKind.ERASE, digests=id_digest(one.stream, one.id)) for one in pending]
    task.step(_raw(marks), _raw([]))
    full = task.settings.join.model_copy(update={"max_table_bytes_per_task": 1})
    task.apply_settings(task.settings.model_copy(update={"join": full}))
    task.step(_raw([replace(one, id=f"{one.id}-") for one in pending]), _raw([]))


def _with_another_learner(stream: StreamSettings) -> StreamSettings:
    """Add a learner whose scaler must see what is pending; own code is not asked, it may do anything."""
    scaled = LearnerSettings(method="baseline", scaler="standard")
    return stream.model_copy(update={"learners": {**stream.learners, "rehearsal": scaled}})


@contextmanager
def cache_lock(should_stop: Callable[[], bool]) -> Iterator[bool]:
    """Hold the lock of the cache; yield False when asked to stop. A cache that cannot be changed needs no lock."""
    lock = base_folder() / "lock"
    if is_read_only(lock.parent):
        yield True
        return
    with lock.open("w") as handle:
        yield _wait_for_lock(lock, handle.fileno(), should_stop)


def _wait_for_lock(lock: Path, descriptor: int, should_stop: Callable[[], bool]) -> bool:
    """Wait for the file lock; return False when asked to stop.

    Raises:
        ConfigurationError: Another process held the lock for `_LOCK_TIMEOUT_S`.
    """
    begin = time.monotonic()
    is_reported = False
    while not should_stop():
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited_s = time.monotonic() - begin
            if waited_s > _LOCK_TIMEOUT_S:
                raise ConfigurationError(
                    f"another process has held {lock} for {waited_s:.0f} s; end it, or set AREBA_CACHE_DIR"
                ) from None
            if waited_s > LOCK_REPORT_S and not is_reported:
                log_lines.COMPILED_CODE_AWAITED.log(LOG, lock=lock, timeout_s=_LOCK_TIMEOUT_S)
                is_reported = True
            time.sleep(0.1)
        else:
            return True
    return False


def _rehearsal_records(streams: Mapping[str, StreamSettings], count: int) -> tuple[RawRecords, RawRecords]:
    """Return this many examples of each stream, and their labels."""
    examples = [
        _rehearsal_example(name, stream, number, number % 2)
        for name, stream in streams.items()
        for number in range(count)
    ]
    labels = [Label(name, f"{number}-{name}"[:64], number % 2) for name in streams for number in range(count)]
    return _raw(examples), _raw(labels)


def _rehearsal_example(name: str, stream: StreamSettings, number: int, value: float) -> Example:
    """Return an example whose features, or values, are all this number."""
    id_ = f"{number}-{name}"[:64]
    if stream.columns:
        return Example(name, id_, values=dict.fromkeys(stream.columns, int(value)))
    return Example(name, id_, [float(value)] * (stream.features or 2))


def _raw(records: Sequence[Example | Label | Mark]) -> RawRecords:
    numbers = np.arange(1, len(records) + 1, dtype=np.int64)
    keys = [record.stream.encode() for record in records]
    return RawRecords.of(numbers, numbers.copy(), keys, list(map(codec.encode, records)))
