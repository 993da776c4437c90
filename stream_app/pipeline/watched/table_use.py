"""How full the tables of a stream's join are, and whether what they will lose is still needed; no result depends on it.

A table that is full costs nothing by itself: a stream without labels fills its pending examples, and a busy stream its
closed ids. It is a problem if examples are evicted before their labels come, if labels become dead letters before their
examples come, or if ids are forgotten so soon that a record which its producer sends again is not recognised.
"""

from typing import NamedTuple, Self

import numpy as np

from stream_app.config.task_settings import JoinSettings
from stream_app.join.constants import Counter, SlotState
from stream_app.join.stream_join import StreamJoin
from stream_app.pipeline.watched.label_flow import LabelFlow

NEAR = 0.9
"""The share of its bound from which on a table is about to be full."""

_RESENT_MS = 300_000
"""A producer sends a record again within this time, if at all: its client gives up after two minutes by default."""

HOUR_MS = 3_600_000


class Crowding(NamedTuple):
    """A table that is about to lose something.

    Attributes:
        text: What it loses, and which setting decides.
        is_certain: Whether it is needed; if not, no label has come so far, and perhaps none ever will.
    """

    text: str
    is_certain: bool = True


class TableUse(NamedTuple):
    """What the tables of a stream hold. Times are event time in milliseconds; None: not known.

    Attributes:
        pending: Examples that wait.
        waiting: Labels that wait.
        waiting_bytes: Their bytes, see `join.max_waiting_bytes_per_stream`.
        closed: Closed ids that are remembered.
        labelled: Labels that were joined so far.
        pending_ms: Time since the oldest pending example.
        closed_ms: Time since the oldest closed id.
        usual_delay_ms: 99 % of the joined labels came within it.
    """

    pending: int
    waiting: int
    waiting_bytes: int
    closed: int
    labelled: int
    pending_ms: int | None
    closed_ms: int | None
    usual_delay_ms: int | None

    def crowding(self, join: JoinSettings, *, is_pool_full: bool = False) -> Crowding | None:
        """Return which table is about to lose what is needed; None if no table is.

        Args:
            join: The bounds.
            is_pool_full: Whether the stream makes room for others: `TablePool.crowded`.
        """
        if self.waiting >= NEAR * join.max_waiting_per_stream:
            return Crowding(
                f"{self.waiting:,} labels wait for examples, join.max_waiting_per_stream is "
                f"{join.max_waiting_per_stream:,}: the oldest become dead letters"
            )
        if self.waiting_bytes >= NEAR * join.max_waiting_bytes_per_stream:
            return Crowding(
                f"the labels that wait for examples have {self.waiting_bytes:,} bytes, join."
                f"max_waiting_bytes_per_stream is {join.max_waiting_bytes_per_stream:,}: the oldest become dead letters"
            )
        bound = f"join.max_pending_per_stream is {join.max_pending_per_stream:,}"
        is_full = self.pending >= NEAR * join.max_pending_per_stream
        if is_pool_full and not is_full:
            bound = (
                f"the tables of the task are full (join.max_table_bytes_per_task is {join.max_table_bytes_per_task:,})"
            )
        pending = self._pending(bound) if is_full or is_pool_full else None
        return pending or self._closed(join.max_closed_per_stream)

    def _pending(self, bound: str) -> Crowding | None:
        """Say whether examples are evicted; this costs nothing if all labels that come at all come sooner."""
        reach_ms, usual_ms = self.pending_ms, self.usual_delay_ms
        if reach_ms is None or (usual_ms is not None and 2 * usual_ms < reach_ms):
            return None
        hours = f"{reach_ms / HOUR_MS:,.1f} h of event time"
        text = f"{self.pending:,} examples wait, {bound}: the oldest are evicted after {hours}"
        if self.labelled:
            return Crowding(text)
        return Crowding(f"{text}; no label has come so far: a label that takes longer is lost", is_certain=False)

    def _closed(self, most: int) -> Crowding | None:
        if not most or self.closed < NEAR * most or self.closed_ms is None or self.closed_ms >= _RESENT_MS:
            return None
        return Crowding(
            f"the ids of {self.closed:,} closed examples are remembered, join.max_closed_per_stream is {most:,}: an "
            f"example that is sent again after {self.closed_ms / 1000:,.0f} s of event time is learned again"
        )

    @classmethod
    def of(cls, join: StreamJoin, flow: LabelFlow) -> Self:
        """Return what the tables of a stream hold, given its join and the flow of its labels."""
        state, sizes = join.arrays(), join.sizes
        counters = state["counters"]
        now_ms, first = int(counters[Counter.STREAM_TIME]), int(counters[Counter.CLOSED_FIRST])
        times = state["times"][state["states"] == SlotState.PENDING]
        pending_ms = now_ms - int(np.min(times)) if len(times) else None
        closed_ms = now_ms - int(state["closed_times"][first % len(state["closed_times"])]) if sizes.closed else None
        return cls(*sizes, int(counters[Counter.LABELLED]), pending_ms, closed_ms, flow.usual_delay_ms)
