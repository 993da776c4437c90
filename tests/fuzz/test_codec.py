"""Hostile bytes against the decoders. By hand: `python -m tests.fuzz.test_codec SEED COUNT`.

The invariant: whatever the bytes, the batch decoder returns, each row gets the verdict of the slow reference, and no
more memory is taken than the input has bytes, three times over, and 300 bytes a row.
"""

import random
import sys
import tracemalloc

import numpy as np

from stream_app.records import MAX_STREAM_BYTES, Decoded, Kind, Reason, Side, unpack_id
from stream_app.serialization import codec
from tests.support.avro_reference import HEADERS, Maker, Verdict, judge, varint

MAX_RECORD_BYTES = 300
MAX_FEATURES = 9
LIMITS = codec.DecodeLimits(MAX_RECORD_BYTES, MAX_FEATURES)
"""So small that random values get beyond them."""

BATCH = 500


def compare(decoded: Decoded, row: int, verdict: Verdict) -> None:
    """Assert that a row of the batch is what the reference says."""
    said = Reason(reason) if (reason := int(decoded.reasons[row])) else None
    assert said == verdict.reason, verdict
    if verdict.reason is not None:
        empty = (decoded.kinds[row], decoded.feature_counts[row], decoded.labels[row])
        assert empty == (Kind.MALFORMED, 0, -1)
        stream = verdict.fields.get("stream", "")
        if 1 <= len(stream.encode()) <= MAX_STREAM_BYTES:  # the breaker asks whether the stream is told
            assert decoded.stream_names[decoded.streams[row]] == stream
        else:
            assert decoded.streams[row] == -1
        assert not decoded.ids[row].any()
        assert row not in decoded.marks
        return
    fields = verdict.fields
    assert decoded.stream_names[decoded.streams[row]] == fields["stream"]
    if verdict.name == "mark":
        assert decoded.kinds[row] == Kind.MARK
        mark = decoded.marks[row]
        assert (mark.kind.name.lower(), mark.time_ms, mark.learner) == (
            fields["kind"],
            fields["time_ms"],
            fields["learner"],
        )
        return
    assert decoded.kinds[row] == Kind.DATA
    assert unpack_id(decoded.ids[row]) == fields["id"]
    start, count = decoded.feature_starts[row], decoded.feature_counts[row]
    assert decoded.features[start : start + count].tolist() == fields.get("features", [])
    assert (decoded.labels[row], decoded.revisions[row]) == (fields.get("label", -1), fields.get("revision", 0))


def run(seed: int, count: int) -> dict[str, int]:
    """Decode so many inputs on both sides in turn; how many rows met each fate."""
    maker = Maker(random.Random(seed))
    fates: dict[str, int] = {}
    for start in range(0, count, BATCH):
        side = Side(start // BATCH % 2)
        values = list(maker.values(min(BATCH, count - start), side))
        decoded = codec.decode(values, side, LIMITS)
        for row, value in enumerate(values):
            verdict = judge(value, side, MAX_RECORD_BYTES, MAX_FEATURES)
            compare(decoded, row, verdict)
            fate = verdict.check or (verdict.reason.text if verdict.reason else verdict.name)
            fates[fate] = fates.get(fate, 0) + 1
    return fates


def test_hostile_bytes() -> None:
    """A poison record must become a dead letter, and the same one everywhere, not a crash or a wrong example."""
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
    codec.decode(values[:1], Side.EXAMPLES, codec.DecodeLimits())  # compiled, schemas read
    tracemalloc.start()
    decoded = codec.decode(values, Side.EXAMPLES, codec.DecodeLimits())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert set(decoded.reasons.tolist()) == {Reason.UNDECODABLE}
    assert peak < 3 * sum(map(len, values)) + 300 * len(values) + 20_000


def _claims(size: int) -> list[bytes]:
    """Values with a number where a size is meant: of the stream, of the id, of a block (both signs)."""
    head, text = HEADERS["example"], varint(1) + b"s"
    return [
        head + varint(size) + b"s",
        head + text + varint(size) + b"i",
        head + text + text + varint(size) + bytes(8),
        head + text + text + varint(-size if size > -(2**63) else size) + varint(size) + bytes(8),
    ]


def test_many_names() -> None:
    """A producer that invents a stream for every record must not slow the batch down to a crawl, nor mix names up."""
    names = [f"stream-{number}" for number in range(5_000)]
    one = np.ones(1, np.int8)
    values = [codec.encode_labels(name, ["i"], one)[0] for name in names + names[::-1]]
    decoded = codec.decode(values, Side.LABELS, codec.DecodeLimits())
    assert list(decoded.stream_names) == names
    assert decoded.streams.tolist() == [*range(5_000), *reversed(range(5_000))]


def test_names_of_one_hash() -> None:
    """Who knows the hash must not get streams mixed up: FNV-1a of this name is 0, also with NULs behind it."""
    names = ["77kepQFQ8Kl" + "\0" * number for number in (2, 0, 3, 1)]
    one = np.ones(1, np.int8)
    decoded = codec.decode([codec.encode_labels(name, ["i"], one)[0] for name in names], Side.LABELS, LIMITS)
    assert list(decoded.stream_names) == names


if __name__ == "__main__":
    for fate, rows in sorted(run(int(sys.argv[1]), int(sys.argv[2])).items()):
        print(f"{rows:9} {fate}")  # noqa: T201  (the runner's report)
