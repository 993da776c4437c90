"""The breaker stops a task whose producer is broken, not one that meets a bad record now and then."""

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.breaker import Breaker
from stream_app.config import BreakerSettings

SETTINGS = BreakerSettings(in_a_row=4, share=0.5, share_after_records=20)


def _batch(text: str) -> NDArray[np.bool_]:
    """`x` is malformed."""
    return np.array([letter == "x" for letter in text], np.bool_)


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
    """A run counts across batches; a share only once there were enough records to say."""
    breaker = Breaker(SETTINGS)
    found = [breaker.count(_batch(batch)) for batch in batches]
    assert [problem is not None for problem in found] == [False] * (len(batches) - 1) + [trips]


def test_says_why() -> None:
    """The operator reads which limit it was, and both numbers."""
    assert Breaker(SETTINGS).count(_batch("..xxxxx")) == "5 malformed records in a row (limit 4)"
    assert Breaker(SETTINGS).count(_batch("xxx." * 10)) == "75.0% of 40 records malformed (limit 50.0%)"


def test_reset() -> None:
    """After `areba resume` counting begins anew."""
    breaker = Breaker(SETTINGS)
    assert breaker.count(_batch("xxxx"))
    breaker.reset()
    assert breaker.count(_batch("xxx")) is None
