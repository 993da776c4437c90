"""Decode hostile bytes. From the command line: `python -m tests.fuzz.test_codec SEED COUNT`.

The invariant: for any bytes, the batch decoder returns, each row gets the verdict of the slow reference, and decoding
takes at most three times the bytes of the input, and 300 bytes for each row.
"""

import random
import sys
import tracemalloc

import numpy as np

from stream_app.records import Reason, Side
from stream_app.serialization.decode import DecodeLimits, decode
from stream_app.serialization.encode import encode_labels
from tests.support.formats.avro_reference import HEADERS, judge
from tests.support.formats.avro_values import Maker, varint
from tests.support.formats.codecs import LIMITS, MAX_FEATURES, MAX_RECORD_BYTES, compare

BATCH = 500


def run(seed: int, count: int) -> dict[str, int]:
    """Decode this many inputs of both sides in turn; return how many rows got each verdict."""
    maker = Maker(random.Random(seed))
    fates: dict[str, int] = {}
    for start in range(0, count, BATCH):
        side = Side(start // BATCH % 2)
        values = list(maker.values(min(BATCH, count - start), side))
        decoded = decode(values, side, LIMITS)
        for row, value in enumerate(values):
            verdict = judge(value, side, MAX_RECORD_BYTES, MAX_FEATURES)
            compare(decoded, row, verdict)
            fate = verdict.check or (verdict.reason.text if verdict.reason else verdict.name)
            fates[fate] = fates.get(fate, 0) + 1
    return fates


def test_hostile_bytes() -> None:
    """A poison record must become a dead letter, the same one on every machine, not a crash or a wrong example."""
    fates = run(seed=1, count=20_000)
    good, bad = {"example", "label", "mark"}, {"bad-id", "bad-label", "not-finite", "wrong-dimension", "wrong-schema"}
    checks = {
        "truncated",
        "long varint",
        "int range",
        "negative length",
        "utf8",
        "index range",
        "block size",
        "left over",
    }
    missing = (good | bad | checks | {"too-large", "undecodable"}) - fates.keys()
    assert not missing, f"the inputs are too tame: {fates}"


def test_claims_take_no_memory() -> None:
    """A few bytes that claim to hold terabytes must not take the worker down with them."""
    sizes = (2**20, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63))
    values = [claim for size in sizes for claim in _claims(size)] * 20
    decode(values[:1], Side.EXAMPLES, DecodeLimits())  # compiled, schemas read
    tracemalloc.start()
    decoded = decode(values, Side.EXAMPLES, DecodeLimits())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert set(decoded.reasons.tolist()) == {Reason.UNDECODABLE}
    assert peak < 3 * sum(map(len, values)) + 300 * len(values) + 20_000


def _claims(size: int) -> list[bytes]:
    """Return values that have a number in the place of a size: of the stream, the id or a block, with both signs."""
    head, text = HEADERS["example"], varint(1) + b"s"
    return [
        head + varint(size) + b"s",
        head + text + varint(size) + b"i",
        head + text + text + varint(size) + bytes(8),
        head + text + text + varint(-size if size > -(2**63) else size) + varint(size) + bytes(8),
    ]


def test_many_names() -> None:
    """A producer that invents a stream for every record must neither slow the batch down nor mix up names."""
    names = [f"stream-{number}" for number in range(5_000)]
    one = np.ones(1, np.int8)
    values = [encode_labels(name, ["i"], one)[0] for name in names + names[::-1]]
    decoded = decode(values, Side.LABELS, DecodeLimits())
    assert list(decoded.stream_names) == names
    assert decoded.streams.tolist() == [*range(5_000), *reversed(range(5_000))]


def test_names_of_one_hash() -> None:
    """A sender who knows the hash must not mix up streams: FNV-1a of this name is 0, even with NULs after it."""
    names = ["77kepQFQ8Kl" + "\0" * number for number in (2, 0, 3, 1)]
    one = np.ones(1, np.int8)
    decoded = decode([encode_labels(name, ["i"], one)[0] for name in names], Side.LABELS, LIMITS)
    assert list(decoded.stream_names) == names


if __name__ == "__main__":
    for fate, rows in sorted(run(int(sys.argv[1]), int(sys.argv[2])).items()):
        print(f"{rows:9} {fate}")  # noqa: T201  (the runner's report)
