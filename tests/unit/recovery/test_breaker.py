"""The breaker stops a task whose producer is broken, not one that meets a bad record now and then, or a bad stream."""

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.config import BreakerSettings
from stream_app.recovery.breaker import Breaker

SETTINGS = BreakerSettings(in_a_row=4, share=0.5, share_after_records=20)


def _batch(examples: str, labels: str = "") -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """`x` is unreadable."""
    one, two = (np.array([letter == "x" for letter in text], np.bool_) for text in (examples, labels))
    return one, two


@pytest.mark.parametrize(
    ("batches", "trips"),
    [
        (["xxx"], False),
        (["xxxx"], True),
        (["xx", "xx"], True),
        (["xx", "", "xx"], True),
        (["xx", ".xx"], False),
        (["xxx.", "xxx"], False),
        (["..xx", "x", "x"], True),
        (["xx.xxxx.x"], True),
        ([".xxxx"], True),
        (["xx." * 6], False),  # 12 of 18: too few to say
        (["xx." * 7], True),  # 14 of 21
        (["x." * 15], False),  # half, not more
    ],
)
def test_trips(batches: list[str], trips: bool) -> None:
    """A run is counted across batches; a share counts only after enough records."""
    breaker = Breaker(SETTINGS)
    found = [breaker.count(_batch(batch)) for batch in batches]
    assert [problem is not None for problem in found] == [False] * (len(batches) - 1) + [trips]


def test_says_why() -> None:
    """The reason names the limit that was exceeded, and both numbers."""
    assert Breaker(SETTINGS).count(_batch("..xxxxx")) == "5 unreadable examples in a row (limit 4)"
    assert Breaker(SETTINGS).count(_batch("xxx." * 10)) == "75.0% of 40 examples unreadable (limit 50.0%)"


def test_each_input_counts_by_itself() -> None:
    """Readable labels must not hide that no example can be read: counted together, they would break every run."""
    breaker = Breaker(SETTINGS)
    assert [breaker.count(_batch("x", ".")) for _ in range(3)] == [None] * 3
    assert breaker.count(_batch("x", ".")) == "4 unreadable examples in a row (limit 4)"
    assert Breaker(SETTINGS).count(_batch("....", "xxxx")) == "4 unreadable labels in a row (limit 4)"
    assert Breaker(SETTINGS).count(_batch("xx", "xx")) is None
    assert Breaker(SETTINGS).count(_batch("." * 40, "xxx." * 10)) == "75.0% of 40 labels unreadable (limit 50.0%)"


def test_reset() -> None:
    """After `areba resume`, the breaker counts from zero."""
    breaker = Breaker(SETTINGS)
    assert breaker.count(_batch("xxxx"))
    breaker.reset()
    assert breaker.count(_batch("xxx")) is None
