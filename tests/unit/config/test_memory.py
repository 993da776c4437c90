"""The memory bound: its parts, whether it is a bound, and what it is compared with."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stream_app.admin.inspect_tasks import inspect
from stream_app.backends.topics import DEFAULT_MESSAGE_BYTES
from stream_app.cli.machine_memory import memory_limit_bytes
from stream_app.cli.start import report_memory
from stream_app.config import Config
from stream_app.config.memory_bound import PROCESS_BYTES, MemoryBound, bound_of
from stream_app.worker.reports.figures import Figures
from stream_app.worker.reports.metrics import MEMORY_ALLOCATED, MEMORY_BOUND
from stream_app.worker.reports.observer import Observer
from tests.support.world import PARTITIONS, World, all_at, make_config, started, take_turns

QUEUES_BYTES = (262_144 + 16_384) * 1024


def _bound(largest_label_bytes: int = DEFAULT_MESSAGE_BYTES, **sections: Any) -> MemoryBound:  # noqa: ANN401  (sections of a file)
    config = Config.model_validate(sections)
    return bound_of(config, config.task_settings(), largest_label_bytes)


SMALL = {
    "join": {"max_pending_per_stream": 10, "max_waiting_per_stream": 5, "max_closed_per_stream": 7},
    "learners": {
        "a": {"method": "areba", "budget": 4, "hidden": [3], "scaler": "standard"},
        "b": {"method": "baseline", "hidden": [3]},
    },
    "streams": {"s": {"features": 2}},
    "worker": {"max_batch_records": 3, "buffer_bytes": 2_000_000},
}


def test_by_hand() -> None:
    """The formula of the module, computed for one small stream."""
    slot, parameters, labels = 8 * 2 + 142 + 18, (2 + 1) * 3 + (3 + 1), 5 * 700
    own = 2 * 16 * parameters + (8 + 1) * (8 + 108) + 8 * (8 + 16 + 1 + 16) * (3 + 64 + 1 + 64)
    own += 2 * (2_700 + 1_100)
    tables = 2 * (10 + 5 + 3) * slot + 2 * 8 * 106 + 64 * (10 + 5 + 3 + 7) + labels + 5 * 300
    snapshot = 2 * ((10 + 5) * slot + 7 * 106 + labels)
    bound = _bound(700, **SMALL)
    assert (bound.streams, bound.rows, bound.tables(1)) == (20_000 + 3 * own, tables + snapshot, tables + snapshot)
    assert (bound.task, bound.more_rows, bound.process) == (4_000_000, 0, PROCESS_BYTES + QUEUES_BYTES)
    between = 4_096 * 700 + (3 + 4_096) * (2 * slot + 2 * 106 + 64)
    assert bound.pool == 2 * ((1 << 28) + between)


def test_large_labels_count_up_to_what_a_stream_holds() -> None:
    """Of 10,000 labels with a megabyte of headers each, only a thousandth was counted."""
    roomy = {**SMALL, "join": {"max_waiting_per_stream": 10_000}}
    small, large, huge = (_bound(size, **roomy).rows for size in (700, 6_000, 1_000_000))
    assert large - small == 3 * 10_000 * 5_300
    assert huge - small == 3 * ((1 << 26) - 10_000 * 700)


def test_a_configured_stream_counts_once_and_others_in_every_task() -> None:
    """A stream is in one partition; models created on the fly may be as many in each task as the limit permits."""
    streams = {"a": {"features": 2}, "b": {"features": 2}}
    named = _bound(streams=streams)
    fixed: dict[str, Any] = {"limits": {"max_streams_per_task": 5, "max_features": 2}, "unknown_streams": "model"}
    more = _bound(streams=streams, **fixed)
    assert named.task == 2 * (1 << 26)
    assert more.streams == named.streams
    assert more.task - named.task == 3 * named.streams // 2
    assert more.more_rows == 3 * named.rows // 2
    assert more.total(4) - more.total(3) == more.task + more.pool, "the rows of so many streams would be more"


def test_a_clients_queue_is_the_users_if_he_set_it() -> None:
    """The figure contains the queue size that a user has set."""
    kafka = {"producer": {"queue.buffering.max.kbytes": "1000"}, "all": {"queued.max.messages.kbytes": "500"}}
    assert _bound(kafka=kafka).process == PROCESS_BYTES + 1_500 * 1024


FULL = """
import gc, sys, time
import numpy as np
from stream_app.serialization import codec
from stream_app.snapshot.kept_snapshots import KeptSnapshots
from stream_app.live.position import Anchor
from stream_app.live.snapshot_writer import SnapshotTimes, SnapshotWriter
from stream_app.config import Config
from stream_app.live.buffers import WaitingRecords
from stream_app.config.memory_bound import bound_of
from stream_app.backends.base import Fetched, TopicPartition
from stream_app.record_columns import RawRecords
from stream_app.records import (Example, Label)
from stream_app.pipeline.task import Task
from tests.support.resident_memory import resident_bytes

HEADERS, LARGEST, STREAMS, POOL = map(int, sys.argv[1:])
FEATURES, T, NAMES = 30, 1_700_000_000_000, ["s" * 248 + str(k) for k in range(STREAMS)]
ROWS = 4000 if HEADERS == 1000 else 2000
bounds = dict.fromkeys(("max_pending_per_stream", "max_waiting_per_stream", "max_closed_per_stream"), ROWS)
config = Config.model_validate({
    "join": {**bounds, "max_table_bytes_per_task": POOL},
    "streams": {name: {"features": FEATURES} for name in [*NAMES, "warm"]},
    "worker": {"buffer_bytes": 4_000_000, "max_batch_records": 500},
    "limits": {"max_features": FEATURES},
})
settings = config.task_settings()
task, offset = Task(0, settings, ("examples", "labels")), 0


def raw(records, time_ms, stream, headers=()):
    global offset
    offset += len(records)
    offsets, times = np.arange(offset - len(records), offset), np.full(len(records), time_ms)
    values = [codec.encode(record) for record in records]
    found = {row: [("h", bytes([row % 256]) * size) for size in headers] for row in range(len(records)) if headers}
    return RawRecords.of(offsets, times, [stream.encode()] * len(records), values, found)


def example(number, stream):
    return Example(stream, f"{number:064}", [1.0] * FEATURES)


def resident():
    gc.collect()
    return resident_bytes()


for _ in range(2):
    task.step(raw([example(k, "warm") for k in range(9)], T, "warm"),
              raw([Label("warm", f"{k:064}", k % 2) for k in range(9)], T, "warm"))
task.take_states()[0].core_state()
before = resident()
for name in NAMES:
    for first in range(0, ROWS, 500):
        numbers = range(first, first + 500)
        examples, labels = [example(k, name) for k in numbers], [Label(name, f"{k:064}", k % 2) for k in numbers]
        task.step(raw(examples, T, name), raw(labels, T, name))
    for first in range(ROWS, 2 * ROWS, 500):
        task.step(raw([example(k, name) for k in range(first, first + 500)], T, name), raw([], T, name))
    for first in range(2 * ROWS, 3 * ROWS, 500):
        labels = [Label(name, f"{k:064}", 1) for k in range(first, first + 500)]
        task.step(raw([], T, name), raw(labels, T, name, headers=[HEADERS // 4] * 4))
if STREAMS == 1:
    counts = task.stream(NAMES[0]).join._counters
    assert (counts[7], counts[8], counts[11] - counts[10]) == (ROWS, ROWS, ROWS), counts
else:
    assert task.pool.used_share > 0.9, task.pool.used_share
sides = WaitingRecords(), WaitingRecords()
for side in sides:
    while side.bytes < config.worker.buffer_bytes:
        records = raw([example(k, NAMES[0]) for k in range(500)], T, NAMES[0])
        side.add(Fetched(TopicPartition("t", 0), records, at_end=False, position=0))
writer = SnapshotWriter(0, SnapshotTimes(0.0, 60.0), KeptSnapshots(), time.monotonic)
writer.begin(task, Anchor(1, bytes(32), (0, 0), 0), (0, 0, 0))
writer.draft()
bound = bound_of(config, settings, LARGEST)
held = bound.streams + bound.pool if STREAMS > 1 else (bound.streams + bound.rows) // 2  # "warm" is empty
print(resident() - before, held + bound.task, task.allocated_bytes)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("header_bytes", "streams", "pool"), [(1_000, 1, 1 << 30), (32_000, 1, 1 << 30), (1_000, 8, 40_000_000)]
)
def test_full_tables_take_a_third_to_all_of_the_bound(header_bytes: int, streams: int, pool: int) -> None:
    """An operator sets a container's limit by this figure: thousands of rows of everything, buffers, and a snapshot."""
    largest = header_bytes + 700
    arguments = [sys.executable, "-c", FULL, *map(str, (header_bytes, largest, streams, pool))]
    # glibc raises its own threshold, and then what it keeps of freed blocks depends on the order of allocations
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "131072"}
    output = subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment).stdout
    grown, bound, allocated = map(int, output.split())
    assert bound / 3 < grown < bound, f"{grown:,} of {bound:,}"
    assert bound / 10 < allocated < grown, f"{allocated:,} allocated"


FREED = """
import ctypes, threading
from stream_app.cli.machine_memory import return_freed_memory
from tests.support.resident_memory import resident_bytes

return_freed_memory()
library = ctypes.CDLL(None)
library.malloc.restype, library.free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
fetched, tables, between = ((ctypes.c_void_p * 100)() for _ in range(3))

def fill(size):
    block = library.malloc(size)
    ctypes.memset(block, 1, size)
    return block

def fetch():
    for k in range(100):
        fetched[k] = fill(500_000)
    for k in range(100):
        library.free(fetched[k])

before = resident_bytes()
library.free(fill(30_000_000))  # glibc's own thresholds are now 30 and 60 MB
thread = threading.Thread(target=fetch)
thread.start()
thread.join()
for k in range(10):
    tables[k], between[k] = fill(5_000_000), fill(1_000)
for k in range(10):
    library.free(tables[k])
print(resident_bytes() - before)
"""


def test_freed_memory_is_returned() -> None:
    """Otherwise a worker whose tasks come and go grows for an hour, and its container is too small."""
    done = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 10_000_000


def _cgroup(folder: Path, own: str, **limits: str) -> tuple[int, str]:
    for path, text in limits.items():
        file = folder / "cgroup" / path.replace("__", "/").replace("_max", ".max")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    (folder / "own").write_text(own)
    return memory_limit_bytes(folder / "cgroup", folder / "own")


def test_the_least_limit_counts(tmp_path: Path) -> None:
    """The limit of the process's control group or of one that contains it; without any, the machine's memory."""
    machine = memory_limit_bytes(tmp_path / "none", tmp_path / "none")
    assert machine[0] > 1 << 20
    assert machine[1] == "the machine"
    assert _cgroup(tmp_path, "0::/pod/app\n", memory_max="max", pod__memory_max="5000000") == (5_000_000, "the cgroup")
    assert _cgroup(tmp_path, "0::/pod/app\n", pod__app__memory_max="4000000") == (4_000_000, "the cgroup")
    assert _cgroup(tmp_path, "0::/\n") == machine
    v1 = tmp_path / "cgroup" / "memory" / "docker" / "memory.limit_in_bytes"
    v1.parent.mkdir(parents=True)
    v1.write_text("3000000\n")
    assert _cgroup(tmp_path, "7:cpu,memory:/docker\n1:name=systemd:/\n") == (3_000_000, "the cgroup")


def test_a_bound_above_the_memory_that_there_is_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise the kernel would kill the worker weeks later, when the tables are full."""
    figures, bound = Figures(), MemoryBound(1 << 30, 2 << 30, 1 << 30, 0, 2 << 30, 1 << 29)
    with caplog.at_level(logging.INFO):
        report_memory(bound, 2, 6 << 30, "the machine", figures)
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert figures.values()[MEMORY_BOUND][()] == bound.total(2) == 5 * (1 << 30) + (1 << 29)
    with caplog.at_level(logging.WARNING):
        report_memory(bound, 3, 6 << 30, "the cgroup", figures)
    assert caplog.records[-1].levelname == "WARNING"
    assert f"limit={6 << 30} of the cgroup" in caplog.text


def test_the_allocated_memory_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """The log reports memory when it has grown, `/metrics` always; `inspect` reports the size of the snapshots."""
    world = World(make_config(worker={"snapshot_after_ms": 0}))
    observer = Observer(world.clock)
    member = started(world.worker(observer=observer))
    world.send(20)
    with caplog.at_level(logging.INFO):
        take_turns(member, until=all_at(member, 20))
        for _ in range(10):  # until the last snapshot is written; a turn measures, and then commits
            world.clock.advance(61)
            member.turn()
    allocated = observer.figures.values()[MEMORY_ALLOCATED]
    for task in member.tasks:
        assert allocated[str(task.number),] == task.allocated_bytes > 20_000
        assert f"memory task={task.number} allocated=" in caplog.text
    found = inspect(world.cluster, world.config)
    settings = world.config.task_settings()
    assert found.memory_bound_bytes == bound_of(world.config, settings, DEFAULT_MESSAGE_BYTES).total(PARTITIONS)
    assert 1_000 < found.tasks[0].snapshot_bytes < member.tasks[0].allocated_bytes
