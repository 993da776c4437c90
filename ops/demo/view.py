"""What people see of the demo: the live view while it runs, and the panels of the figure at its end."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ops import figure
from ops.demo.conclusion import duration
from ops.demo.curves import CurveModel
from ops.demo.streams import STREAMS
from stream_app.backends.partitioner import partition_of
from stream_app.monitor.figures import LiveFigures, StreamFigures
from stream_app.monitor.table import figures_table, share
from stream_app.monitor.watcher import Watcher
from stream_app.producers.manifest import Manifest
from stream_app.producers.plan import Plan
from stream_app.producers.schedule import Schedule, schedule
from stream_app.records import Side
from stream_app.terminal import Terminal

PARTITIONS = 4

PLAIN_REFRESH_S = 5.0
"""Time between two lines if the output is not a terminal."""


@dataclass(frozen=True, slots=True)
class Totals:
    """How many records are sent to every partition, by the index `2 * partition + side`."""

    counts: Counter[int]

    @classmethod
    def of(cls, plan: Plan, planned: Schedule) -> "Totals":
        """Compute the partition of each record as Java's default partitioner does."""
        partitions = np.array([partition_of(stream.stream.encode(), PARTITIONS) for stream in plan.streams], np.int64)
        return cls(Counter((2 * partitions[planned.streams] + planned.sides).tolist()))

    def end(self, partition: int, side: Side) -> int:
        """Return the number of records that an input partition has at the end."""
        return self.counts[2 * partition + side]


class View:
    """The live view: progress bars, messages, and a table row for each stream and learner."""

    def __init__(self, console: Terminal, watcher: Watcher, model: CurveModel, plan: Plan) -> None:
        self.console = console
        self.watcher = watcher
        self.model = model
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
        """Draw the view during the block if the output is a terminal; otherwise, `update` prints a line regularly."""
        if not self.console.is_terminal:
            yield None
            return
        with Live(self._view(), console=self.console, refresh_per_second=4, transient=True) as live:
            yield live

    def update(self, live: Live | None) -> None:
        """Show the current numbers."""
        self._set(self._sent_bar, self.sent)
        self._set(self._done_bar, self.processed)
        if live is not None:
            live.update(self._view())
        elif time.monotonic() >= self._plain_at_s:
            self._plain_at_s = time.monotonic() + PLAIN_REFRESH_S
            counts = f"sent {self.sent:,} of {self.records_total:,} records, processed {self.processed:,}"
            text = "; ".join(filter(None, (counts, summary(self.watcher.figures()))))
            self.console.print(text, soft_wrap=True)

    def _set(self, bar: TaskID, value: int) -> None:
        self._bars.update(bar, completed=value)

    def note_sent(self, records: int) -> None:
        """Note the number of records that were sent so far."""
        self.sent = records

    def say(self, text: str, style: str = "") -> None:
        """Print a message."""
        self.console.print(text, style=style, soft_wrap=True)

    @property
    def processed(self) -> int:
        """Number of input records that the group has committed."""
        return sum(sum(self.watcher.model.ends(number)) for number in range(PARTITIONS))

    def figures(self) -> Mapping[str, StreamFigures]:
        """Return the figures of each stream, in the order of the plan."""
        known = {stream.stream: stream for stream in self.watcher.figures().streams}
        return {name: known[name] for name in self.streams}

    def predicted(self) -> Mapping[str, int]:
        """Return the number of predicted examples by stream, from the newest metrics."""
        return {
            name: max((learner.examples for learner in stream.learners), default=0)
            for name, stream in self.figures().items()
        }

    def _view(self) -> Group:
        return Group(figures_table(self.watcher.figures(), ""), self._bars)

    @property
    def finished(self) -> bool:
        """Whether the group has committed all records that are sent, including the closing marks."""
        return all(
            self.watcher.model.ends(number)
            == (self.totals.end(number, Side.EXAMPLES), self.totals.end(number, Side.LABELS))
            for number in range(PARTITIONS)
        )

    @property
    def predicted_share(self) -> float:
        """Share of all examples that were predicted."""
        return sum(self.predicted().values()) / self.examples_total


def panels_of(view: View, manifest: Manifest) -> Sequence[figure.Panel]:
    """Return the panels of the figure, one for each stream."""
    specs = {spec.name: spec for spec in STREAMS}
    panels = []
    figures = view.figures()
    for stream in manifest.streams:
        learners = figures[stream.stream].learners
        points = {metric.learner: view.model.curve(stream.stream, metric.learner) for metric in learners}
        curves = [
            figure.Curve(
                metric.learner, metric.champion, points[metric.learner].positions, points[metric.learner].gmeans
            )
            for metric in learners
        ]
        positive = 100 * stream.examples.positive / stream.examples.sent
        delay = max((metric.delay_ms_p50 or 0 for metric in learners), default=0)
        note = f"{positive:.2g} % positive, median delay {duration(delay)}"
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


def summary(figures: LiveFigures) -> str:
    """Return one line about the champions, for logs and pipes: `fraud 12,000 labelled G-mean 0.912; ...`."""
    return "; ".join(
        f"{stream.stream} {learner.labelled:,} labelled G-mean {share(learner.main_window.gmean)}"
        for stream in figures.streams
        for learner in stream.learners
        if learner.champion
    )
