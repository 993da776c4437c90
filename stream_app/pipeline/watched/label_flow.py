"""Whether the labels of a stream still arrive, from event time and the state of its join; no result depends on it.

There are three problems. Labels have stopped: no label was joined for longer than twice the usual delay (the 99th
percentile of all delays so far) although examples came, and this is not chance. Or too many examples end without a
label: the share of `unlabelled` among the newest closed examples exceeds a setting. Or labels come and wait, because
most of the newest meet no example: their ids may be wrong, and otherwise only `join.ttl_ms` would show it.

Whether it is chance: an example is overdue if it came after the newest join, and has waited for longer than the usual
delay and longer than two producers can be apart. If labels came as before, its label would have come with a probability
of the share of examples that get a label at all; so the probability of `n` overdue examples without a join is
`(1 - share)^n`. A stream with one example an hour, or with a label for every hundredth example, has long silences, and
nothing is wrong.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Bytes, Longs
from stream_app.join.constants import JOINED_KIND, UNLABELLED_KIND, Counter, Setting, SlotState
from stream_app.join.delays import DELAY_STEPS, EXACT_DELAYS_MS
from stream_app.join.stream_join import StreamJoin

WINDOW = 1_000
"""How many of the newest closed examples decide the share of `unlabelled`."""

ENOUGH = 100
"""The fewest labels that make a usual delay, the fewest closed examples that make a share, and the fewest waiting
labels that are a problem."""

_USUAL_SHARE = 0.99
"""The share of delays that are at most the usual delay."""

SKEW_MS = 1_000
"""Examples and labels come from two topics: labels of the same time can be read this much later."""

_CHANCE = 0.001
"""A silence with a lower probability is taken to have a cause."""


class LabelFlow(NamedTuple):
    """The flow of a stream's labels. Times are event time in milliseconds; None: not known yet.

    Attributes:
        silence_ms: Time since the newest join.
        usual_delay_ms: 99 % of the joined labels came within it.
        labelled_share: The share of all closed examples that were joined.
        overdue: Examples since the newest join that have waited for longer than the usual delay, and `SKEW_MS`.
        unlabelled_share: The share of the newest closed examples that ended `unlabelled`.
        unmatched: Labels, of the newest `WINDOW`, that wait for an example, and for longer than `SKEW_MS`.
        matched: Labels that were joined since the oldest of these came.
    """

    silence_ms: int | None
    usual_delay_ms: int | None
    labelled_share: float
    overdue: int
    unlabelled_share: float | None
    unmatched: int = 0
    matched: int = 0

    def problem(self, max_unlabelled_share: float) -> str | None:
        """Return a sentence that says what is wrong, or None."""
        silence_ms, usual_ms = self.silence_ms, self.usual_delay_ms
        if (
            silence_ms is not None
            and usual_ms is not None
            and silence_ms > 2 * usual_ms
            and (1.0 - _USUAL_SHARE * self.labelled_share) ** self.overdue < _CHANCE
        ):
            silence_s, usual_s = silence_ms / 1000, usual_ms / 1000
            return f"no label was joined for {silence_s:,.1f} s of event time; the usual delay is {usual_s:,g} s"
        if self.unlabelled_share is not None and self.unlabelled_share > max_unlabelled_share:
            return f"{self.unlabelled_share:.1%} of the newest examples ended without a label"
        if self.unmatched >= ENOUGH and self.unmatched > self.matched:
            return (
                f"{self.unmatched:,} of the newest {self.unmatched + self.matched:,} labels met no example: are their "
                "ids those of the examples?"
            )
        return None


def flow_of(join: StreamJoin) -> LabelFlow:
    """Return the flow of labels of a stream, given its join."""
    state = join.arrays()
    counters = state["counters"]
    labelled, now_ms = int(counters[Counter.LABELLED]), int(counters[Counter.STREAM_TIME])
    closed = labelled + int(counters[Counter.UNLABELLED]) + int(counters[Counter.EVICTED])
    first, end = int(counters[Counter.CLOSED_FIRST]), int(counters[Counter.CLOSED_NEXT])
    ring = len(state["closed_times"])
    newest = np.arange(max(first, end - WINDOW), end) % ring
    unlabelled = float((state["closed_outcomes"][newest] == UNLABELLED_KIND).mean()) if len(newest) >= ENOUGH else None
    share = labelled / closed if closed else 0.0
    met = _met(state, first, end, now_ms)
    if labelled < ENOUGH:
        return LabelFlow(None, None, share, 0, unlabelled, *met)
    joined_ms = now_ms - int(state["settings"][Setting.CLOSED_LIFE_MS])  # a forgotten join is older
    if first < end:
        joined_ms = _newest_join(state["closed_outcomes"], state["closed_times"], first, end)
    usual_ms = _usual_delay_ms(state["delays"], labelled)
    times = state["times"][state["states"] == SlotState.PENDING]
    overdue = np.count_nonzero((times > joined_ms) & (times <= now_ms - max(usual_ms, SKEW_MS)))
    return LabelFlow(now_ms - joined_ms, usual_ms, share, int(overdue), unlabelled, *met)


def _met(state: Mapping[str, NDArray[Any]], first: int, end: int, now_ms: int) -> tuple[int, int]:
    """Return `LabelFlow.unmatched` and `LabelFlow.matched`; `first` and `end` are numbers of closed examples."""
    times = state["times"][state["states"] == SlotState.WAITING]
    waiting = np.sort(times[times <= now_ms - SKEW_MS])[-WINDOW:]
    if len(waiting) < ENOUGH:
        return len(waiting), 0
    closed = np.arange(first, end) % len(state["closed_times"])
    joined = (state["closed_outcomes"][closed] == JOINED_KIND) & (state["closed_times"][closed] >= waiting[0])
    return len(waiting), int(np.count_nonzero(joined))


def _newest_join(outcomes: Bytes, times: Longs, first: int, end: int) -> int:
    """Return the event time of the newest remembered join, else the time of the oldest remembered closed example."""
    for stop in range(end, first, -WINDOW):
        rows = np.arange(max(first, stop - WINDOW), stop) % len(times)
        joined = np.flatnonzero(outcomes[rows] == JOINED_KIND)
        if len(joined):
            return int(times[rows[joined[-1]]])
    return int(times[first % len(times)])


def _usual_delay_ms(delays: Longs, labelled: int) -> int:
    """Return the delay that `metrics` publish as `delay_ms_p99`: the middle of its bucket in the join's histogram."""
    bucket = int(np.searchsorted(np.cumsum(delays), np.ceil(_USUAL_SHARE * labelled)))
    if bucket < EXACT_DELAYS_MS:
        return bucket
    doublings, step = divmod(bucket - EXACT_DELAYS_MS, DELAY_STEPS)
    return ((step + DELAY_STEPS) << (doublings + 1)) + (1 << doublings)
