"""Verification latency: the time from an example to its label.

A delay is given as text, in events of the stream (`ev`) or in event time (`ms`, `s`, `m`, `h`, `d`):

    none                        the label follows its example immediately
    fixed:100ev                 always the same
    uniform:0s-60s              any time between the two, inclusive
    exponential:30s             with this mean
    lognormal:30s,1.0           with this median and this standard deviation of the logarithm
    positive=SPEC,negative=SPEC one of the forms above for each class
"""

import re
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import ConfigurationError
from stream_app.producers.arithmetic import exponential, logarithm, normal
from stream_app.producers.draws import Draws

UNITS_MS = {"ms": 1.0, "s": 1_000.0, "m": 60_000.0, "h": 3_600_000.0, "d": 86_400_000.0}

EVENTS = "ev"

MAX_DELAY_MS = 10 * 366 * 86_400_000
"""Ten years: longer than any retention time, and far below the limit of a 64-bit integer."""

MAX_SIGMA = 5.0
"""With this standard deviation, one label in a thousand takes 5,000,000 times the median."""

FORMS = "none, fixed:100ev, uniform:0s-60s, exponential:30s, lognormal:30s,1.0 or positive=...,negative=..."


class Distribution(StrEnum):
    """The distribution of delays."""

    NONE = "none"
    FIXED = "fixed"
    UNIFORM = "uniform"
    EXPONENTIAL = "exponential"
    LOGNORMAL = "lognormal"


@dataclass(frozen=True, slots=True)
class Duration:
    """An amount of time in a unit: `ev`, or one of `UNITS_MS`."""

    amount: float
    unit: str

    def milliseconds(self, interval_ms: int) -> float:
        """Return the event time in milliseconds; an event is one interval of its stream."""
        return self.amount * (interval_ms if self.unit == EVENTS else UNITS_MS[self.unit])

    def __str__(self) -> str:
        return f"{self.amount:.15g}{self.unit}"


@dataclass(frozen=True, slots=True)
class Delay:
    """Delays of one distribution.

    Attributes:
        distribution: The distribution.
        first: The fixed delay, the smallest (uniform), the mean (exponential) or the median (log-normal).
        second: The largest delay (uniform).
        sigma: The standard deviation of the logarithm (log-normal).
    """

    distribution: Distribution
    first: Duration = Duration(0.0, EVENTS)
    second: Duration = Duration(0.0, EVENTS)
    sigma: float = 0.0

    def __str__(self) -> str:
        match self.distribution:
            case Distribution.NONE:
                return "none"
            case Distribution.UNIFORM:
                return f"uniform:{self.first}-{self.second}"
            case Distribution.LOGNORMAL:
                return f"lognormal:{self.first},{self.sigma:.15g}"
            case _:
                return f"{self.distribution}:{self.first}"

    def milliseconds(
        self, first: NDArray[np.float64], second: NDArray[np.float64], interval_ms: int
    ) -> NDArray[np.int64]:
        """Return delays int64 `[n]`, at most `MAX_DELAY_MS`, from two rows of uniform numbers in [0, 1)."""
        low, high = self.first.milliseconds(interval_ms), self.second.milliseconds(interval_ms)
        match self.distribution:
            case Distribution.UNIFORM:
                delays = low + np.floor(first * (high - low + 1.0))
            case Distribution.EXPONENTIAL:
                delays = -low * logarithm(1.0 - first)
            case Distribution.LOGNORMAL:
                delays = low * exponential(self.sigma * normal(first, second))
            case _:
                delays = np.full(len(first), low)
        return np.rint(np.minimum(delays, MAX_DELAY_MS)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class LabelDelay:
    """The delays of both classes."""

    negative: Delay
    positive: Delay

    def __str__(self) -> str:
        if self.negative == self.positive:
            return str(self.negative)
        return f"positive={self.positive},negative={self.negative}"

    def milliseconds(
        self, draws: Draws, labels: NDArray[np.int8], interval_ms: int, first: int = 0
    ) -> NDArray[np.int64]:
        """Return the milliseconds from example to label, int64 `[n]`, for n examples from number `first` on.

        Example i uses the draws 2i and 2i + 1.
        """
        uniforms = draws.uniforms(2 * first, 2 * len(labels)).reshape(-1, 2)
        negative = self.negative.milliseconds(uniforms[:, 0], uniforms[:, 1], interval_ms)
        if self.positive == self.negative:
            return negative
        return np.where(labels == 1, self.positive.milliseconds(uniforms[:, 0], uniforms[:, 1], interval_ms), negative)


NO_DELAY = LabelDelay(Delay(Distribution.NONE), Delay(Distribution.NONE))


def parse_label_delay(text: str) -> LabelDelay:
    """Parse a delay; the module's docstring lists the forms.

    Raises:
        ConfigurationError: The text has none of the forms, or a number is out of bounds.
    """
    for order in (
        "positive=(?P<positive>.+),negative=(?P<negative>.+)",
        "negative=(?P<negative>.+),positive=(?P<positive>.+)",
    ):
        if found := re.fullmatch(order, text):
            return LabelDelay(_parse(found["negative"], text), _parse(found["positive"], text))
    delay = _parse(text, text)
    return LabelDelay(delay, delay)


def _parse(spec: str, text: str) -> Delay:
    name, _, arguments = spec.partition(":")
    try:
        distribution = Distribution(name)
    except ValueError:
        raise ConfigurationError(f"label delay {text}: {name or 'nothing'} is not one of {FORMS}") from None
    match distribution:
        case Distribution.NONE:
            if arguments:
                raise ConfigurationError(f"label delay {text}: `none` takes no argument")
            return Delay(distribution)
        case Distribution.UNIFORM:
            low, _, high = arguments.partition("-")
            delay = Delay(distribution, _duration(low, text), _duration(high, text))
            if (delay.first.unit == EVENTS) != (delay.second.unit == EVENTS):
                raise ConfigurationError(f"label delay {text}: both ends must be in events, or both in time")
            if delay.second.milliseconds(1) < delay.first.milliseconds(1):
                raise ConfigurationError(f"label delay {text}: {high} is less than {low}")
            return delay
        case Distribution.LOGNORMAL:
            median, _, sigma = arguments.partition(",")
            if not re.fullmatch(r"\d+(\.\d+)?", sigma) or not float(sigma) <= MAX_SIGMA:
                raise ConfigurationError(
                    f"label delay {text}: {sigma or 'nothing'} is not a standard deviation from 0 to {MAX_SIGMA:g}"
                )
            return Delay(distribution, _duration(median, text), sigma=float(sigma))
        case _:
            return Delay(distribution, _duration(arguments, text))


def _duration(argument: str, text: str) -> Duration:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ev|ms|s|m|h|d)", argument)
    if not found:
        raise ConfigurationError(
            f"label delay {text}: {argument or 'nothing'} is not a duration (5ev, 250ms, 30s, 10m, 1h, 2d)"
        )
    duration = Duration(float(found[1]), found[2])
    if duration.milliseconds(1) > MAX_DELAY_MS:
        raise ConfigurationError(f"label delay {text}: {argument} is longer than ten years")
    return duration
