"""Labels come after their delay, and never before their example."""

import hashlib

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.errors import ConfigurationError
from stream_app.producers.draws import Draws
from stream_app.producers.label_delay import NO_DELAY, parse_label_delay

CLASSES = (np.arange(40_000) % 2).astype(np.int8)


def _delays(text: str, interval_ms: int = 1_000) -> NDArray[np.int64]:
    return parse_label_delay(text).milliseconds(Draws("test"), CLASSES, interval_ms)


def test_fixed_delays_are_fixed_in_events_and_in_time() -> None:
    """An event is one interval of its stream, so the same text means 100 arrivals at any interval."""
    assert set(_delays("fixed:100ev", interval_ms=20).tolist()) == {2_000}
    assert set(_delays("fixed:1.5s", interval_ms=20).tolist()) == {1_500}
    assert set(_delays("none").tolist()) == {0}


def test_uniform_delays_reach_both_ends() -> None:
    """Both ends must be possible."""
    delays = _delays("uniform:2ms-5ms")
    assert sorted(set(delays.tolist())) == [2, 3, 4, 5]
    assert (np.bincount(delays, minlength=6)[2:] > 9_000).all()


def test_exponential_delays_have_their_mean() -> None:
    """The mean is what the text gives, and 63 % are below it."""
    delays = _delays("exponential:30s")
    assert abs(delays.mean() - 30_000) < 600
    assert abs((delays < 30_000).mean() - 0.632) < 0.01


def test_lognormal_delays_have_their_median() -> None:
    """The median is what the text gives, and 84 % are below e times it (deviation 1)."""
    delays = _delays("lognormal:30s,1.0")
    assert abs(np.median(delays) - 30_000) < 600
    assert abs((delays < 30_000 * np.e).mean() - 0.841) < 0.01


def test_each_class_has_its_own_delay() -> None:
    """A fraud is reported weeks later, a good payment is soon settled."""
    delays = _delays("positive=uniform:1h-2h,negative=fixed:3ev")
    assert delays[CLASSES == 1].min() >= 3_600_000
    assert set(delays[CLASSES == 0].tolist()) == {3_000}
    assert (delays == _delays("negative=fixed:3ev,positive=uniform:1h-2h")).all()


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        ("exponential:30s", "3b0ef8f86a41b5d13547169f33e43ca019dc81aab3f881c4fe666f754a6636fa"),
        ("lognormal:30s,1.0", "8756927c81a37279e7d1ea8dad286a392fbe8f188515a06ae22a0c2f732ac558"),
    ],
)
def test_a_seed_gives_the_same_delays_everywhere(text: str, digest: str) -> None:
    """The order of labels decides results, so it must not depend on the machine's logarithm."""
    delays = parse_label_delay(text).milliseconds(Draws("golden"), np.zeros(5_000, np.int8), 1_000)
    assert hashlib.sha256(delays.astype("<i8").tobytes()).hexdigest() == digest


@pytest.mark.parametrize(
    "text",
    [
        "none",
        "fixed:100ev",
        "fixed:1234567ms",
        "uniform:0s-60s",
        "exponential:30s",
        "lognormal:30s,1",
        "positive=lognormal:1h,0.5,negative=none",
    ],
)
def test_text_reads_back(text: str) -> None:
    """The manifest contains the delay as text."""
    assert str(parse_label_delay(text)) == text


def test_no_delay_is_none() -> None:
    """The default of a plan is the paper's setting: the label comes before the next example."""
    assert str(NO_DELAY) == "none"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "nothing is not one of"),
        ("fixd:3s", "fixd is not one of"),
        ("fixed:3", "3 is not a duration"),
        ("fixed:-3s", "-3s is not a duration"),
        ("none:3s", "takes no argument"),
        ("uniform:3s", "nothing is not a duration"),
        ("uniform:3s-1s", "1s is less than 3s"),
        ("uniform:1ev-2s", "both ends must be in events"),
        ("lognormal:3s", "is not a standard deviation"),
        ("lognormal:3s,9", "is not a standard deviation"),
        ("exponential:30s,1", "30s,1 is not a duration"),
        ("fixed:99999d", "longer than ten years"),
        ("positive=none", "is not one of"),
    ],
)
def test_wrong_texts_are_refused_in_one_line(text: str, message: str) -> None:
    """The error has the complete text and the wrong part, so that a user can correct it."""
    with pytest.raises(ConfigurationError, match=message) as caught:
        parse_label_delay(text)
    assert len(caught.value.lines) == 1
    assert caught.value.exit_code == 2
