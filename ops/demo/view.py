"""What people see of the demo: the live view while it runs, and the panels of the figure at its end."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ops import figure, table
from ops.demo.streams import STREAMS
from ops.watch import Watch
from producers.manifest import Manifest
from producers.plan import Plan
from producers.schedule import Schedule, schedule
from stream_app.backends.partitioner import partition_of
from stream_app.records import Side
from stream_app.terminal import Terminal

PARTITIONS = 4

PLAIN_REFRESH_S = 5.0
"""Time between two lines if the output is not a terminal."""


@dataclass(slots=True)
class Totals:
    """How many records are sent to every partition: in all, and after a number of records.

    Attributes:
        columns: Index `2 * partition + side` of each record in the order of sending, int64 `[records]`.
        counts: Number of records by this index.
    """

    columns: NDArray[np.int64]
    counts: Counter[int] = field(default_factory=Counter)

    @classmethod
    def of(cls, plan: Plan, planned: Schedule) -> "Totals":
        """Compute the partition of each record as Java's default partitioner does."""
        partitions = np.array([partition_of(stream.stream.encode(), PARTITIONS) for stream in plan.streams], np.int64)
        columns = 2 * partitions[planned.streams] + planned.sides
        return cls(columns, Counter(columns.tolist()))

    def end(self, partition: int, side: Side) -> int:
        """Return the number of records that an input partition has in the end."""
        return self.counts[2 * partition + side]

    def sent(self, records: int) -> NDArray[np.int64]:
        """Return the number of records in each partition, both inputs together, after `records` in all.

        Returns:
            int64 `[partitions]`.
        """
        counts = np.bincount(self.columns[:records], minlength=2 * PARTITIONS).astype(np.int64)
        return counts[0::2] + counts[1::2]


class View:
    """The live view: progress bars, messages, and a table row for each stream and learner."""

    def __init__(self, console: Terminal, watch: Watch, plan: Plan) -> None:
        self.console = console
        self.watch = watch
        self.sent = 0
        self.kills: dict[str, int] = {}
        planned = schedule(plan)
        self.totals = Totals.of(plan, planned)
        self.examples_total = sum(stream.events for stream in plan.streams)
        self.records_total = len(planned)
        self.streams = tuple(stream.stream for stream in plan.streams)
        self._bars = Progress(
            TextColumn("{task.description:>9}", markup=False),
            BarColumn(None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._sent_bar = self._bars.add_task("sent", total=self.records_total)
        self._done_bar = self._bars.add_task("processed", total=self.records_total)
        self._plain_at_s = 0.0

    @contextmanager
    def live(self) -> Iterator[Live | None]:
        """Draw the view during the block if the output is a terminal; otherwise `update` prints a line now and then."""
        if not self.console.is_terminal:
            yield None
            return
        with Live(self._view(), console=self.console, refresh_per_second=4, transient=True) as live:
            yield live

    def update(self, live: Live | None) -> None:
        """Show the current numbers."""
        self._set(self._sent_bar, self.sent)
        self._set(self._done_bar, self.watch.processed)
        if live is not None:
            live.update(self._view())
        elif time.monotonic() >= self._plain_at_s:
            self._plain_at_s = time.monotonic() + PLAIN_REFRESH_S
            counts = f"sent {self.sent:,} of {self.records_total:,} records, processed {self.watch.processed:,}"
            self.console.print("; ".join(filter(None, (counts, table.plain(self.rows())))), soft_wrap=True)

    def _set(self, bar: TaskID, value: int) -> None:
        self._bars.update(bar, completed=value)

    def note_sent(self, records: int) -> None:
        """Note the number of records that were sent so far."""
        self.sent = records

    def say(self, text: str, style: str = "") -> None:
        """Print a message."""
        self.console.print(text, style=style, soft_wrap=True)

    def rows(self) -> list[table.LiveRow]:
        """Return the rows of the table: streams in the order of the plan, learners in that of the configuration."""
        sent = self.totals.sent(self.sent)
        return [
            table.LiveRow(
                curve.latest,
                max(
                    0,
                    int(sent[self.watch.partition_of[stream]]) - sum(self.watch.ends[self.watch.partition_of[stream]]),
                ),
            )
            for stream in self.streams
            for (name, _), curve in self.watch.curves.items()
            if name == stream
        ]

    def _view(self) -> Group:
        return Group(table.live(self.rows()), self._bars)

    @property
    def finished(self) -> bool:
        """Whether the group has committed all records that are sent, including the closing marks."""
        return all(
            self.watch.ends[number] == (self.totals.end(number, Side.EXAMPLES), self.totals.end(number, Side.LABELS))
            for number in range(PARTITIONS)
        )

    @property
    def predicted_share(self) -> float:
        """Share of all examples that were predicted."""
        return sum(self.watch.examples().values()) / self.examples_total


def panels_of(view: View, manifest: Manifest) -> Sequence[figure.Panel]:
    """Return the panels of the figure, one for each stream."""
    specs = {spec.name: spec for spec in STREAMS}
    panels = []
    for stream in manifest.streams:
        curves = [
            figure.Curve(learner, curve.latest.champion, curve.positions, curve.gmeans)
            for (name, learner), curve in view.watch.curves.items()
            if name == stream.stream
        ]
        positive = 100 * stream.examples.positive / stream.examples.sent
        delay = max(
            (curve.latest.delay_ms_p50 or 0 for (name, _), curve in view.watch.curves.items() if name == stream.stream)
        )
        note = f"{positive:.2g} % positive, median delay {table.duration(delay)}"
        extra = specs[stream.stream].note
        panels.append(
            figure.Panel(
                stream=stream.stream,
                curves=curves,
                drifts={drift.kind: drift.step for drift in stream.drifts},
                kills=[view.kills[stream.stream]] if stream.stream in view.kills else [],
                note=f"{extra}, {note}" if extra else note,
            )
        )
    return panels
