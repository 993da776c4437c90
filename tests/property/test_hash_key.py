"""The join's hash table has a secret key: senders choose ids, and must not be able to choose where they are stored."""

import os
import random
import struct
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.arrays import Longs, Words, pack_id
from stream_app.config import JoinSettings, TaskSettings
from stream_app.join.constants import Counter
from stream_app.join.stream_join import HASH_KEY_BYTES, NO_HASH_KEY, StreamJoin
from stream_app.pipeline.outputs import chain_digest
from stream_app.pipeline.task import Task
from stream_app.records import MAX_ID_BYTES, Side
from stream_app.verify.reference_merge import merge
from stream_app.verify.reference_state import Record
from tests.support.rows import columns
from tests.support.snapshots import exported
from tests.support.tasks import FEW, PARTITION, TOPICS, cut_at, one_side, task_settings

MASK = (1 << 64) - 1

ROWS = 2_000
"""Rows in a table of 8,192 places."""

CANDIDATES = 64 * ROWS


def story(chosen: TaskSettings, batches: Sequence[tuple[list[Record], list[Record]]], key: bytes) -> list[object]:
    """Return all that a worker writes: outputs, digests, snapshots after each batch, and digests of models."""
    task, digest, written = Task(PARTITION, chosen, TOPICS, key), bytes(32), []
    for examples, labels in batches:
        outputs = task.step(columns(examples), columns(labels))
        digest = chain_digest(digest, (0, 0, 0, 0), outputs)
        written.append((outputs.topics, digest, exported(task)))
    return [*written, task.model_digests()]


KEYS = st.binary(min_size=HASH_KEY_BYTES, max_size=HASH_KEY_BYTES)


@pytest.mark.slow(5)
@FEW
@given(task_settings(), one_side(Side.EXAMPLES), one_side(Side.LABELS), KEYS, KEYS, st.data())
def test_no_output_digest_or_snapshot_depends_on_the_key(
    task_settings: TaskSettings,
    examples: list[Record],
    labels: list[Record],
    one: bytes,
    other: bytes,
    data: st.DataObject,
) -> None:
    """The next process draws another key, and must reach the same bits."""
    sequence = list(merge(examples, labels))
    ends = data.draw(st.lists(st.integers(0, len(sequence)), max_size=4))
    batches = list(cut_at(sequence, ends))
    assert story(task_settings, batches, one) == story(task_settings, batches, other)


def sip_1_3(key: bytes, text: bytes) -> int:
    """Compute the hash as in its paper (Aumasson, Bernstein 2012)."""
    k = struct.unpack("<2Q", key)
    v: list[int] = [
        k[0] ^ 0x736F6D6570736575,
        k[1] ^ 0x646F72616E646F6D,
        k[0] ^ 0x6C7967656E657261,
        k[1] ^ 0x7465646279746573,
    ]

    def turn(at: int, bits: int) -> None:
        v[at] = (v[at] << bits | v[at] >> (64 - bits)) & MASK

    def rounds(count: int) -> None:
        for _ in range(count):
            for a, b, bits in ((0, 1, 13), (2, 3, 16), (0, 3, 21), (2, 1, 17)):
                v[a] = (v[a] + v[b]) & MASK
                turn(b, bits)
                v[b] ^= v[a]
                if (a, b) in ((0, 1), (2, 1)):
                    turn(a, 32)

    padded = text + bytes(-(len(text) + 1) % 8) + bytes([len(text)])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        rounds(1)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(3)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def indexed(ids: Words, key: bytes) -> StreamJoin:
    """Return a join in which these ids are pending."""
    join = StreamJoin(JoinSettings(), 100, 1, key)
    join.set_features(1)
    join.reserve(len(ids), 0)
    join.arrays()["ids"][: len(ids)] = ids
    join.index(len(ids), 0)
    return join


def test_the_hash_is_siphash_1_3() -> None:
    """The hash must be the published function; CPython hashes bytes with the same function, under the key 0."""
    draw = random.Random(1)
    texts = [bytes(draw.choices(range(1, 128), k=length)) for length in range(1, MAX_ID_BYTES + 1)]
    for key in (NO_HASH_KEY, bytes(range(HASH_KEY_BYTES)), draw.randbytes(HASH_KEY_BYTES)):
        join = indexed(np.array([pack_id(text.decode()) for text in texts]), key)
        assert join.arrays()["hashes"][: len(texts)].tolist() == [sip_1_3(key, text) for text in texts]
    program = f"import sys; print(sys.hash_info.algorithm, *(hash(text) % 2**64 for text in {texts!r}))"
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    output = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()
    assert output == ["siphash13", *(str(sip_1_3(NO_HASH_KEY, text)) for text in texts)]


def _steps(join: StreamJoin, count: int) -> float:
    """Return the average number of places that are read until an id is found."""
    state = join.arrays()
    references: Longs = state["table_references"]
    mask = len(references) - 1
    places = np.flatnonzero(references >= 0)
    assert len(places) == count == join._counters[Counter.PENDING]
    homes = (state["table_hashes"][places] & np.uint64(mask)).astype(np.int64)
    return float(((places - homes) & mask).mean()) + 1


def test_ids_that_were_chosen_against_a_key_are_ordinary_under_another() -> None:
    """With the previous hash, 40,000 ids that a sender chose made every record two hundred times slower."""
    one, other = (random.Random(seed).randbytes(HASH_KEY_BYTES) for seed in (1, 2))
    ids = np.zeros((CANDIDATES, 9), np.uint64)
    ids[:, 0], ids[:, 1] = 8, np.arange(CANDIDATES) + 0x3030303030303030
    places = len(indexed(ids[:ROWS], one).arrays()["table_references"])
    homes = indexed(ids, one).arrays()["hashes"][:CANDIDATES] & np.uint64(places - 1)
    chosen = ids[np.argsort(homes, kind="stable")[:ROWS]]
    assert _steps(indexed(chosen, one), ROWS) > 300 * _steps(indexed(ids[:ROWS], one), ROWS), "they were chosen well"
    assert _steps(indexed(chosen, other), ROWS) < 3 * _steps(indexed(ids[:ROWS], other), ROWS)
