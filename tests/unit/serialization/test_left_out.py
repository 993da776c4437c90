"""A dead letter that does not fit: what it leaves out first, and how a reader can identify that."""

import hashlib
from itertools import pairwise

import pytest

from stream_app.records import Header
from stream_app.serialization.left_out import Fields, LeftOut, batch_bytes, fitted, headers_bytes, read_left_out

OURS: list[Header] = [("areba.reason", b"too-large")]
WHOLE = Fields(b"k" * 500, b"v" * 2_000, [("source", b"h" * 1_000), ("none", None)])


def _sizes() -> list[int]:
    """Return the size of the largest batch of each form: complete, without headers, without value, without key."""
    return [batch_bytes(fitted(WHOLE, OURS, most)) for most in (10_000, 3_000, 1_200, 0)]


@pytest.mark.parametrize(
    ("most", "lost"),
    [(10_000, ()), (3_000, ("headers",)), (1_200, ("headers", "value")), (600, ("headers", "value", "key"))],
)
def test_headers_go_first_then_the_value_then_the_key(most: int, lost: tuple[str, ...]) -> None:
    """As much as fits is kept; lengths and SHA-256 identify what is left out."""
    letter = fitted(WHOLE, OURS, most)
    rest, left_out = read_left_out(letter.headers)
    assert tuple(sorted(left_out)) == tuple(sorted(lost))
    assert rest[-1] == OURS[0], "ours are there in any form"
    assert (rest[:-1] == WHOLE.headers) is not bool(lost)
    assert letter.value == (None if "value" in lost else WHOLE.value)
    assert letter.key == (None if "key" in lost else WHOLE.key)
    for part in lost:
        assert left_out[part].is_of(WHOLE.part(part))
        assert not left_out[part].is_of(WHOLE.part(part)[:-1] + b"?")
    assert not lost or left_out["headers"] == LeftOut(
        len(headers_bytes(WHOLE.headers)), hashlib.sha256(headers_bytes(WHOLE.headers)).hexdigest()
    )


def test_a_letter_fits_wherever_it_can() -> None:
    """At the size of each form that form is used; with one byte less, the next smaller form."""
    sizes = _sizes()
    assert sizes == sorted(sizes, reverse=True)
    for size, smaller in pairwise(sizes):
        assert batch_bytes(fitted(WHOLE, OURS, size)) == size
        assert batch_bytes(fitted(WHOLE, OURS, size - 1)) == smaller


def test_a_null_value_of_a_dead_letter_stays_null() -> None:
    """A null value remains null, and nothing is reported about it."""
    letter = fitted(Fields(None, None, [("source", b"h" * 1_000)]), OURS, 300)
    assert set(read_left_out(letter.headers)[1]) == {"headers"}
    assert read_left_out(fitted(Fields(b"", b"", ()), OURS, 0).headers)[1] == {}


def test_no_header_of_a_producer_is_taken_for_ours() -> None:
    """A complete letter ends with our headers, after any headers of the record."""
    forged: list[Header] = [("areba.value.length", b"5"), ("areba.value.sha256", b"00")]
    letter = fitted(Fields(b"k", b"v", forged), OURS, 10_000)
    assert read_left_out(letter.headers) == (letter.headers, {})
    assert read_left_out([*OURS, ("areba.value.length", b"many"), ("areba.value.sha256", b"")])[1] == {}


def test_headers_as_bytes_are_one_to_one() -> None:
    """Null and empty, one header or two: different headers have different bytes."""
    every: list[list[Header]] = [[], [("a", None)], [("a", b"")], [("", b"a")], [("a", b""), ("", None)]]
    assert len({headers_bytes(headers) for headers in every}) == len(every)
