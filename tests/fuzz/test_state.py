"""Read hostile state. From the command line: `python -m tests.fuzz.test_state SEED COUNT`.

The invariant: a changelog of any content with correct checksums gives a task or a StateError that names the place, and
reading it takes little memory beyond its bytes. A task that was loaded never crashes the interpreter: no array that
compiled code gets has wrong addresses or sizes. (Absurd numbers in the right places, with the right checksum, cannot be
distinguished from a model's; they cause absurd predictions, or an error.)
"""

import itertools
import random
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.backends.base import Fetched, TopicPartition
from stream_app.config import StreamSettings, TaskSettings
from stream_app.errors import ConfigurationError, ErrorCode, StateError
from stream_app.pipeline.task import Task
from stream_app.record_columns import RawRecords
from stream_app.recovery import changelog
from stream_app.snapshot import task_loading
from stream_app.snapshot.format import (
    FORMAT,
    Entry,
    Location,
    Manifest,
    Snapshot,
    checksum_of,
    chunk_key,
    pack,
    unpack,
)
from stream_app.snapshot.segments import Blob, Book
from stream_app.snapshot.task_loading import load_task
from tests.support.alike_streams import IN_MEMORY, alike_records, alike_settings, busy_task
from tests.support.rows import columns
from tests.support.snapshots import exported
from tests.support.tasks import PARTITION, TOPICS, fixed_input

Loaded = TypeVar("Loaded")

METHODS: Mapping[str, dict[str, Any]] = {
    "areba": {"budget": 4},
    "qbr": {"budget": 4},
    "sliding": {"window": 3},
    "adaptive_cs": {"cost_interval_labels": 4},
    "oob": {"ensemble_size": 2},
    "relay": {"replay_per_class": 8},
}

EXTREMES = (-(2**63), -1, 0, 1, 7, 2**31, 2**40, 2**63 - 1)


class Original:
    """A valid snapshot of a small task, and records that may follow it."""

    def __init__(self, method: str) -> None:
        settings, examples, labels = fixed_input(80)
        learner = {"method": method, **({"scaler": "standard"} if method == "qbr" else {}), **METHODS[method]}
        stream = StreamSettings.model_validate({"features": 2, "champion": method, "learners": {method: learner}})
        self.settings = settings.model_copy(update={"streams": {"a": stream}, "default_stream": stream})
        task = Task(PARTITION, self.settings, TOPICS)
        task.step(columns(examples[:50]), columns(labels[:40]))
        self.more = columns(examples[50:]), columns(labels[40:])
        self._save(task)

    def _save(self, task: Task) -> None:
        blobs = [blob for blob in Book().draft(task.take_states(), "1") if isinstance(blob, Blob)]
        self.contents = {blob.key: blob.content for blob in blobs}
        self.entries = [blob.entry(number) for number, blob in enumerate(blobs)]

    def manifest(self, contents: Mapping[str, bytes]) -> Manifest:
        """Return a manifest of these blobs, with their correct lengths and checksums."""
        entries = tuple(
            entry.model_copy(update={"length": len(contents[entry.key]), "checksum": checksum_of(contents[entry.key])})
            for entry in self.entries
        )
        return Manifest(
            format=FORMAT,
            engine="test",
            partition=PARTITION,
            sequence=1,
            digest="0" * 64,
            offsets=(50, 40),
            settings=self.settings.to_json(),
            entries=entries,
        )

    def load(self, contents: Mapping[str, bytes]) -> Task:
        """Return a task that is loaded from these blobs."""
        task = Task(PARTITION, self.settings, TOPICS)
        load_task(task, self.manifest(contents), contents, "changelog[0]")
        return task


class Alike(Original):
    """A valid snapshot of streams that are loaded together, all but the first."""

    def __init__(self, method: str) -> None:
        self.settings = alike_settings({method: {"method": method, **METHODS[method]}})
        self.more = alike_records(30, labels=False), alike_records(29, labels=True)
        self._save(busy_task(self.settings, 30))


def _bytes(draw: random.Random, content: bytes) -> bytes:
    """Return the bytes with flipped bits, cut, spliced, or with changed numbers in the header."""
    damaged = bytearray(content)
    kind = draw.randrange(4)
    if kind == 0:
        for _ in range(draw.choice((1, 3))):
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
    elif kind == 1:
        del damaged[draw.randrange(len(damaged)) :]
    elif kind == 2:
        start, end = sorted(draw.randrange(len(damaged)) for _ in range(2))
        damaged[start:end] = draw.randbytes(draw.randrange(9))
    else:
        head = min(len(damaged), 2_000)
        damaged[draw.randrange(head)] = draw.choice(b'0123456789,[]{}":-')
    return bytes(damaged)


def _arrays(draw: random.Random, content: bytes) -> bytes:
    """Return the arrays with one array changed in value, shape or type, removed, or added."""
    arrays = unpack(content, "original")
    name = draw.choice(list(arrays))
    array = arrays[name]
    kind = draw.randrange(6)
    if kind <= 2 and array.size and array.dtype.kind in "iuf":
        arrays[name] = _with_value(draw, array)
    elif kind == 3:
        arrays[name] = array[: draw.randrange(len(array) + 1)]
    elif kind == 4:
        arrays[name] = np.concatenate([array, array]) if array.ndim else array
    elif kind == 5:
        arrays[name] = array.astype(draw.choice((np.float64, np.int8, np.int64, np.uint64, np.float32)))
    else:
        del arrays[name]
    return pack(arrays)


def _with_value(draw: random.Random, array: NDArray[Any]) -> NDArray[Any]:
    changed = array.copy()
    value = draw.choice(EXTREMES)
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        value = min(max(value, limits.min), limits.max)
    flat = changed.reshape(-1)
    flat[draw.randrange(len(flat))] = value if draw.random() < 0.9 or array.dtype.kind != "f" else np.nan
    return changed


def run(seed: int, count: int, originals: Sequence[Original]) -> Counter[str]:
    """Read this many damaged snapshots; return how many gave each result."""
    draw = random.Random(seed)
    fates: Counter[str] = Counter()
    for _ in range(count):
        original = draw.choice(originals)
        key = draw.choice(list(original.contents))
        damage: Callable[[random.Random, bytes], bytes] = draw.choice((_bytes, _arrays, _arrays))
        contents = {**original.contents, key: damage(draw, original.contents[key])}
        task = _loaded(lambda original=original, contents=contents: original.load(contents))  # type: ignore[misc]
        fates["loaded" if isinstance(task, Task) else "refused"] += 1
        if isinstance(task, Task):
            fates["worked with" if _works(task, original) else "raised"] += 1
        else:
            assert task.startswith("changelog[0]")
        fates[_manifest(draw, original)] += 1
    return fates


def _works(task: Task, original: Original) -> bool:
    """Say whether Python can work with the task; absurd numbers may stop Python, but must not crash the interpreter."""
    try:
        task.step(*original.more)
    except (
        ArithmeticError,
        ValueError,
        StateError,
    ):  # an erasure checks the numbers of the stream that it builds again
        return False
    return True


def _manifest(draw: random.Random, original: Original) -> str:
    text = _bytes(draw, original.manifest(original.contents).to_bytes())
    manifest = _loaded(lambda: Manifest.from_bytes(text, "changelog[0] offset 7"))
    if isinstance(manifest, str):
        assert manifest.startswith("changelog[0] offset 7")
        return "no manifest"
    settings = _loaded(lambda: TaskSettings.from_json(manifest.settings))
    return "no settings" if isinstance(settings, str) else "a manifest"


def _loaded(loading: Callable[[], Loaded]) -> Loaded | str:
    """Return what was loaded, or the text of the refusal."""
    try:
        return loading()
    except (StateError, ConfigurationError) as problem:
        return str(problem)


@pytest.fixture(scope="module")
def originals() -> list[Original]:
    """Return a snapshot for each method."""
    return list(map(Original, METHODS))


@pytest.fixture(scope="module")
def original(originals: list[Original]) -> Original:
    """Return one of the snapshots."""
    return originals[0]


def test_damaged_state(originals: list[Original]) -> None:
    """A byte that a disk or an operator changes must cause a one-line error, not a crash or a wrong model."""
    fates = run(seed=1, count=2_000, originals=originals)
    assert fates["refused"] > 500
    assert fates["worked with"] > 100
    assert fates["no manifest"] > 1_000


def _damages(content: bytes) -> Iterator[bytes]:
    """Yield the file with each extreme number at the places of short arrays, and at both ends of the others."""
    for name, array in unpack(content, "original").items():
        places = range(array.size) if array.size <= 20 else (0, array.size - 1)
        values = (-1.0, 2.0, 1e9, np.nan, np.inf) if array.dtype.kind == "f" else EXTREMES
        for place, value in itertools.product(places, values):
            arrays = unpack(content, "original")
            limits = None if array.dtype.kind == "f" else np.iinfo(array.dtype)
            number = value if limits is None else min(max(int(value), int(limits.min)), int(limits.max))
            arrays[name].reshape(-1)[place] = number
            yield pack(arrays)


@pytest.mark.parametrize("method", ["areba", "relay"])
def test_each_number_is_checked_together_as_it_is_alone(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One index that is checked only where a stream is loaded alone would let compiled code write anywhere."""
    original = Alike(method)
    first, damaged, *_ = original.contents
    original.entries = original.entries[:2]
    fates: Counter[str] = Counter()
    for content in _damages(original.contents[damaged]):
        found = []
        for at_once in (256, 0):
            monkeypatch.setattr(task_loading, "AT_ONCE", at_once)
            task = _loaded(lambda content=content: original.load({first: original.contents[first], damaged: content}))  # type: ignore[misc]
            found.append("loaded" if isinstance(task, Task) else task)
        assert found[0] == found[1]
        fates["loaded" if found[0] == "loaded" else "refused"] += 1
    assert min(fates["loaded"], fates["refused"]) > 50


def test_damaged_state_of_many_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams that are loaded together are refused for what they are refused for alone, with the same words."""
    draw = random.Random(2)
    originals = [Alike(method) for method in METHODS if method in IN_MEMORY]
    fates: Counter[str] = Counter()
    for _ in range(800):
        original = draw.choice(originals)
        key = draw.choice(list(original.contents))
        damage: Callable[[random.Random, bytes], bytes] = draw.choice((_bytes, _arrays, _arrays))
        contents = {**original.contents, key: damage(draw, original.contents[key])}
        found = []
        for at_once in (256, 0):
            monkeypatch.setattr(task_loading, "AT_ONCE", at_once)
            found.append(_loaded(lambda original=original, contents=contents: original.load(contents)))  # type: ignore[misc]
        together, alone = found
        if isinstance(together, Task) and isinstance(alone, Task):
            assert exported(together) == exported(alone)
            _works(together, original)
        else:
            assert together == alone
        fates["loaded" if isinstance(together, Task) else "refused"] += 1
    assert min(fates["loaded"], fates["refused"]) > 150


class _Records:
    """A reader of these records."""

    def __init__(self, rows: Sequence[tuple[int, bytes | None, bytes | None]]) -> None:
        self._rows, self._from, self._is_read = rows, 0, False

    def seek(self, offset: int) -> None:
        """Continue at this offset."""
        self._from, self._is_read = offset, False

    def poll(self, max_records: int, timeout_s: float) -> Fetched | None:  # noqa: ARG002  (it never waits)
        """Return the rest, once."""
        if self._is_read:
            return None
        self._is_read = True
        rows = [row for row in self._rows if row[0] >= self._from][:max_records]
        offsets = np.array([row[0] for row in rows], np.int64)
        records = RawRecords.of(offsets, offsets.copy(), [row[1] for row in rows], [row[2] for row in rows])
        return Fetched(TopicPartition("changelog", 0), records, at_end=True, position=len(self._rows))

    def close(self) -> None:
        """Do nothing."""


def _read(rows: Sequence[tuple[int, bytes | None, bytes | None]], manifest: Location) -> changelog.Loaded:
    """Return what a changelog of these rows gives."""
    reading = changelog.load(_Records(rows), (Snapshot(manifest, 0),), PARTITION, TOPICS)
    while True:
        try:
            next(reading)
        except StopIteration as done:
            loaded: changelog.Loaded = done.value
            return loaded


def test_claims_of_size_take_no_memory(original: Original) -> None:
    """A manifest of a few bytes that lists a terabyte must not exhaust the worker's memory."""
    huge = original.entries[0].model_copy(update={"length": 1 << 30, "chunks": 1_193, "offset": 0})
    manifest = original.manifest(original.contents).model_copy(update={"entries": (huge,)})
    text = manifest.to_bytes()
    place = Location(5, 1, len(text), checksum_of(text))
    rows = [(0, chunk_key(huge.key, 0), b"x" * 100), (5, chunk_key("1/manifest", 0), text)]
    tracemalloc.start()
    loaded = _read(rows, place)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert loaded.task is None
    assert [line for line in loaded.damage if "offset 0" in line]
    assert peak < 20e6
    claims = [
        (8 + len(head)).to_bytes(8, "little") + head
        for head in (b'{"x":{"dtype":"F64","shape":[1099511627776],"data_offsets":[0,8796093022208]}}', b"[" * 10_000)
    ]
    for claim in claims:
        with pytest.raises(StateError):
            unpack(claim, "changelog[0] offset 0")


def test_another_tasks_or_a_newer_snapshot(original: Original) -> None:
    """The error distinguishes state of another version or task from damage."""
    manifest = original.manifest(original.contents)
    with pytest.raises(StateError, match=ErrorCode.OTHER_VERSION):
        Manifest.from_bytes(manifest.model_copy(update={"format": FORMAT + 1}).to_bytes(), "offset 7")
    text = manifest.model_copy(update={"partition": PARTITION + 1}).to_bytes()
    rows = [(5, chunk_key("1/manifest", 0), text)]
    loaded = _read(rows, Location(5, 1, len(text), checksum_of(text)))
    [damage] = loaded.damage
    assert damage.startswith(f"changelog[{PARTITION}] offset 5, manifest: ")
    assert damage.endswith(f"[{ErrorCode.STATE_UNUSABLE}]")


def test_entries_are_of_bounded_size() -> None:
    """No number of a manifest can ask for more than a blob may have."""
    with pytest.raises(ValueError, match="less than or equal"):
        Entry(stream="s", kind="core", number=0, offset=0, chunks=1, length=1 << 40, checksum="0" * 64, key="k")


if __name__ == "__main__":
    sys.stdout.write(f"{run(int(sys.argv[1]), int(sys.argv[2]), list(map(Original, METHODS)))}\n")
