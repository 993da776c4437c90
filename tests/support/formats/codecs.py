"""Compare the codec with the reference written from the Avro specification, value by value."""

from stream_app.record_columns import COLUMNS, Decoded
from stream_app.records import MAX_STREAM_BYTES, Kind, Reason
from stream_app.serialization.decode import DecodeLimits
from tests.support.formats.avro_reference import Verdict
from tests.support.formats.ids import unpack_id

MAX_RECORD_BYTES = 300

MAX_FEATURES = 9

LIMITS = DecodeLimits(MAX_RECORD_BYTES, MAX_FEATURES)
"""Limits so small that random values exceed them."""


def compare(decoded: Decoded, row: int, verdict: Verdict) -> None:
    """Assert that a row of the batch has the verdict of the reference."""
    said = Reason(reason) if (reason := int(decoded.reasons[row])) else None
    assert said == verdict.reason, verdict
    if verdict.reason is not None:
        empty = (decoded.kinds[row], decoded.feature_counts[row], decoded.labels[row])
        assert empty == (Kind.MALFORMED, 0, -1)
        stream = verdict.fields.get("stream", "")
        if 1 <= len(stream.encode()) <= MAX_STREAM_BYTES:  # the breaker needs to know whether the stream is known
            assert decoded.stream_names[decoded.streams[row]] == stream
        else:
            assert decoded.streams[row] == -1
        assert not decoded.ids[row].any()
        assert row not in decoded.marks
        return
    if verdict.name == "tombstone":
        assert (decoded.kinds[row], decoded.streams[row]) == (Kind.TOMBSTONE, -1)
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
    assert (fields.get("values") is not None) == (count == COLUMNS) == (decoded.value_starts[row] >= 0)
    assert decoded.features[start : start + max(count, 0)].tolist() == fields.get("features", [])
    assert (decoded.labels[row], decoded.revisions[row]) == (fields.get("label", -1), fields.get("revision", 0))
