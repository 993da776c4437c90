"""The addresses that compiled code gets must be the addresses of Python's arrays, or it writes into other memory."""

from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.config import Corrections, JoinSettings
from stream_app.jit.compiler import compiled
from stream_app.jit.memory import (
    CACHE_LINE_BYTES,
    address_of,
    aligned_block,
    longs_at,
)
from stream_app.jit.tables import ArrayMark, SharedBuffers, descriptor_of, new_table, pack, view_of, with_shared_buffers
from stream_app.join import layout
from stream_app.join.layout import JoinArrays
from stream_app.join.stream_join import StreamJoin
from stream_app.learners.factory import LearnerResources, build
from stream_app.learners.online import OnlineLearner
from stream_app.learners.registry import METHODS
from stream_app.pipeline.stream_set import CHANGES, DESCRIPTOR, SUMS
from stream_app.pipeline.task import Task
from tests.support.learner_steps import SEED, ids, in_turn, operations, settings_of, stream
from tests.support.rows import columns
from tests.support.tasks import TOPICS, fixed_input


class Some(NamedTuple):
    """Arrays of different sizes, and a number."""

    short: NDArray[np.int8]
    number: int
    long: NDArray[np.float64]
    seldom: Annotated[NDArray[np.float32], ArrayMark.SELDOM]
    away: Annotated[NDArray[np.int64], ArrayMark.SHARED]


def some() -> Some:
    """Return arrays, each with its own numbers."""
    return Some(
        np.arange(3, dtype=np.int8),
        7,
        np.arange(20.0),
        np.arange(40, dtype=np.float32).reshape(8, 5) + 100,
        np.arange(9),
    )


class Pair(NamedTuple):
    """A table of two tables and numbers."""

    one: Some
    half: float
    other: Some
    is_set: bool


@compiled
def join_view_of(descriptor: int) -> JoinArrays:
    """Return the view that compiled code makes of a descriptor."""
    view: JoinArrays = layout.view_of(longs_at(descriptor))
    return view


def places(arrays: dict[str, NDArray[Any]]) -> dict[str, tuple[int, tuple[int, ...], str]]:
    """Return where each array begins (nowhere, if it is empty), its shape and dtype."""
    return {
        name: (address_of(array) if array.size else 0, array.shape, array.dtype.str) for name, array in arrays.items()
    }


@pytest.mark.parametrize(("features", "learners"), [(1, 1), (3, 2), (30, 8)])
@pytest.mark.parametrize("rows", [0, 17, 500])
@pytest.mark.parametrize("corrections", ["first", "correct"])
def test_compiled_code_finds_the_joins_arrays_where_python_has_them(
    features: int, learners: int, rows: int, corrections: Corrections
) -> None:
    """Python and compiled code compute the offsets of columns; a difference would let one column overwrite another."""
    stream_join = StreamJoin(JoinSettings(corrections=corrections), 100, learners)
    stream_join.set_features(features)
    stream_join.make_room(rows)
    found = join_view_of(address_of(stream_join.descriptor))._asdict()
    assert places(found) == places(dict(stream_join.arrays()))
    spans = sorted((begin, begin + found[name].nbytes) for name, (begin, _, _) in places(found).items())
    assert all(one[1] <= other[0] for one, other in pairwise(spans)), "no two overlap"
    blocks = [(address_of(block), address_of(block) + block.nbytes) for block in stream_join._blocks]
    spans = [span for span in spans if span[0]]
    assert all(any(first <= begin and end <= last for first, last in blocks) for begin, end in spans)


def test_a_join_that_grows_keeps_its_examples() -> None:
    """A block that grows is copied; a column that is not copied would lose what waits for its label."""
    stream_join = StreamJoin(JoinSettings(), 100, 2)
    stream_join.set_features(3)
    kept = (
        *("ids", "hashes", "times", "arrivals", "offsets", "labels", "revisions", "fingerprints", "champions"),
        *("features", "states", "pending_heap", "waiting_heap", "heap_indices"),
    )
    before = {}
    for number, name in enumerate(kept):
        array = stream_join.arrays()[name]
        array[...] = (np.arange(array.size).reshape(array.shape) + number) % 100
        before[name] = array.copy()
    stream_join.arrays()["scores"][...] = np.arange(2 * stream_join.slots).reshape(2, -1)
    slots = stream_join.slots
    stream_join.make_room(100)
    after = stream_join.arrays()
    for name in kept:
        np.testing.assert_array_equal(after[name][:slots], before[name], err_msg=name)
    np.testing.assert_array_equal(after["scores"][:, :slots], np.arange(2 * slots).reshape(2, -1))
    assert sorted(after["free"].tolist()) == list(range(stream_join.slots)), "each slot is free once"


def test_descriptors_name_what_their_owners_hold_after_a_run() -> None:
    """Arrays are replaced as a stream grows; a descriptor that was not written again would point to freed memory."""
    settings, examples, labels = fixed_input(1_500, 5)
    task = Task(0, settings, TOPICS)
    for part in (slice(0, 50), slice(50, 1_500)):
        task.step(columns(examples[part]), columns(labels[part]))
    table = task._streams
    assert len(table) > 1
    for number, of in enumerate(table):
        assert table._joins[number] == address_of(of.join.descriptor)
        cells = (
            layout.JoinField.FIXED,
            layout.JoinField.SLOT_BLOCK,
            layout.JoinField.RING_BLOCK,
            layout.JoinField.TABLE_BLOCK,
        )
        for cell, block in zip(cells, of.join._blocks, strict=True):
            assert of.join.descriptor[cell] == address_of(block)
        for k, learner in enumerate(of.learners):
            assert table._learners[number, k, SUMS] == address_of(of.prequential[k]._sums)
            assert table._learners[number, k, CHANGES] == address_of(of.changes[k]._state)
            if isinstance(learner, OnlineLearner) and learner.descriptor is not None:
                assert table._learners[number, k, DESCRIPTOR] == address_of(learner.descriptor)
                np.testing.assert_array_equal(learner.descriptor, learner._new_descriptor())


@pytest.mark.parametrize("hidden", [[8], [5, 3]])
@pytest.mark.parametrize("method", sorted(METHODS))
def test_shared_buffers_keep_no_number_of_another_stream(method: str, hidden: list[int]) -> None:
    """All streams use the same buffers; a number that one stream leaves there must not change results of another."""
    settings = settings_of(method=method, hidden=hidden, l2=0.01)
    resources = LearnerResources()
    alone, sharing = build("test", settings, 3, SEED), build("test", settings, 3, SEED, resources)
    assert resources.buffers
    examples, labels = stream(60, 3, positives=0.3)
    entries = in_turn(labels, reports=True)
    expected = alone.run(operations(entries), examples, ids(60))
    for k, entry in enumerate(entries):
        for array in resources.buffers.values():
            array[...] = np.nan if array.dtype.kind == "f" else np.array(1 << 40).astype(array.dtype)
        answers = sharing.run(operations([entry]), examples, ids(60))
        np.testing.assert_array_equal(answers.scores[0], expected.scores[k])
        assert answers.labels[0] == expected.labels[k]
    for name, array in alone.arrays().items():
        np.testing.assert_array_equal(sharing.arrays()[name], array, err_msg=name)


def test_a_block_holds_copies_side_by_side() -> None:
    """Views that overlapped, or began where their numbers must not, would change each other or crash."""
    one, other = some(), some()._replace(long=np.arange(20.0) + 1000)
    block = pack(Pair(one, 0.5, other, True))
    spans: list[tuple[int, int]] = []
    last: list[tuple[int, int]] = []
    for part, before in zip((block.table.one, block.table.other), (one, other), strict=True):
        assert part.away is before.away
        assert part.number == 7
        for name in ("short", "long", "seldom"):
            array = getattr(part, name)
            np.testing.assert_array_equal(array, getattr(before, name))
            begin = address_of(array)
            assert begin % (8 if array.nbytes < CACHE_LINE_BYTES else CACHE_LINE_BYTES) == 0
            (last if name == "seldom" else spans).append((begin, begin + array.nbytes))
    assert max(end for _, end in spans) == block.address + block.frequent_bytes <= min(begin for begin, _ in last)
    ordered = sorted(spans + last)
    assert ordered[0][0] == block.address
    assert all(first[1] <= second[0] for first, second in pairwise(ordered))


def test_buffers_are_shared_by_name_shape_and_dtype() -> None:
    """A smaller array in the place of a larger one would be written beyond its end."""
    scratch: SharedBuffers = {}
    one, same = (with_shared_buffers(some(), scratch) for _ in range(2))
    wider = with_shared_buffers(some()._replace(away=np.zeros(10, np.int64)), scratch)
    floats = with_shared_buffers(some()._replace(away=np.zeros(9)), scratch)  # type: ignore[arg-type]  # on purpose
    assert same.away is one.away
    assert same.short is not one.short
    assert wider.away is not one.away
    assert floats.away is not one.away


_pair_of = view_of(Pair)


@compiled
def read_and_write(descriptor: int) -> tuple[float, int]:
    """Return numbers of both tables, and write into the arrays of the second."""
    pair = _pair_of(longs_at(descriptor))
    pair.other.short[2] = pair.one.short[1] + 1
    pair.other.seldom[39] = pair.half
    return pair.one.long[19] + pair.other.long[19] + (1_000.0 if pair.is_set else 0.0), pair.other.number


def test_compiled_code_reads_each_field_of_a_table_and_of_its_tables() -> None:
    """Each place in a descriptor comes from the annotations; a wrong one would read or write foreign memory."""
    shapes: dict[str, Any] = {"short": 3, "long": 20, "seldom": (8, 5), "away": 9}
    pair = new_table(Pair, one=some(), half=0.5, other=new_table(Some, number=9, **shapes), is_set=1)
    pair.other.long[19] = 0.25
    assert read_and_write(address_of(descriptor_of(pair))) == (19.25 + 1_000, 9)
    assert pair.other.short.tolist() == [0, 0, 2]
    assert pair.other.seldom[7, 4] == 0.5
    assert [array.dtype for array in pair.other if isinstance(array, np.ndarray)] == [
        array.dtype for array in pair.one if isinstance(array, np.ndarray)
    ]


def test_a_descriptor_has_addresses_integers_and_bits() -> None:
    """Compiled code finds a field by its place only: an address, an integer or the bits of a float."""
    array = np.zeros(3)
    assert descriptor_of([array, 5, True, -2.5]).tolist() == [
        address_of(array),
        5,
        1,
        int(np.float64(-2.5).view(np.int64)),
    ]
    room, begin = aligned_block(100)
    assert (len(room), address_of(room), begin % CACHE_LINE_BYTES) == (100, begin, 0)


def test_arrays_that_compiled_code_cannot_take_are_refused() -> None:
    """With a stride or in read-only memory, it would read other numbers or crash."""
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    for array in (np.zeros((4, 4))[:, 1], np.frombuffer(bytes(8)), frozen):
        with pytest.raises(ValueError, match="C-contiguous and writable"):
            address_of(array)
