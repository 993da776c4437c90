"""The picture of a trace of commits."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.commits.trace import API_KEYS, STEPS, Trace

ROUNDS_SHOWN = 40
NETWORK, BROKER = "#bbccdd", "#cc6677"
SHADES = ("#bbbbbb", "#228833", "#66ccee", "#4477aa", "#ccbb44", "#ee6677", "#aa3377")


def draw(trace: Trace, file: Path) -> None:
    """Draw the steps of some rounds in turn, the steps of the median and of the slow rounds, and the round trips."""
    figure = Figure(figsize=(10, 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 2, height_ratios=(3, 2))
    _draw_rounds(figure.add_subplot(grid[0, :]), trace)
    _draw_steps(figure.add_subplot(grid[1, 0]), trace)
    _draw_requests(figure.add_subplot(grid[1, 1]), trace)
    figure.savefig(file, dpi=110)


def _draw_rounds(axes: Axes, trace: Trace) -> None:
    shown = trace.rounds[:ROUNDS_SHOWN]
    for row, spans in enumerate(shown):
        for span in spans:
            left, width = 1000 * (span.start_s - spans[0].start_s), 1000 * (span.end_s - span.start_s)
            axes.barh(row, width, left=left, height=0.85, color=SHADES[STEPS.index(span.step)])
    for step, shade in zip(STEPS, SHADES, strict=True):
        axes.barh(0, 0, color=shade, label=step)
    axes.set_ylim(len(shown), -1)
    title = f"{len(shown)} rounds in turn, each from the end of one commit to the end of the next"
    axes.set_title(title, loc="left", pad=28)
    axes.set_xlabel("ms")
    axes.set_ylabel("round")
    axes.legend(ncols=len(STEPS), loc="lower left", bbox_to_anchor=(0, 1), frameon=False)


def _sums(trace: Trace) -> np.ndarray:
    """Return milliseconds, float64 `[rounds, steps]`."""
    return np.array([
        [sum(1000 * (span.end_s - span.start_s) for span in spans if span.step == step) for step in STEPS]
        for spans in trace.rounds
    ])  # fmt: skip


def _draw_steps(axes: Axes, trace: Trace) -> None:
    sums = _sums(trace)
    order = np.argsort(sums.sum(axis=1))
    slow = order[int(0.98 * len(order)) :]
    usual = order[int(0.45 * len(order)) : int(0.55 * len(order)) + 1]
    for row, rows in enumerate((usual, slow)):
        left = 0.0
        for value, shade in zip(sums[rows].mean(axis=0), SHADES, strict=True):
            axes.barh(row, value, left=left, color=shade, height=0.6)
            left += value
        axes.text(left, row, f"  {left:.1f} ms", va="center")
    axes.set_title("Mean steps of rounds", loc="left")
    axes.set_yticks(range(2), ("middle tenth", "slowest fiftieth"))
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.set_xlabel("ms")


def _median(values: Sequence[float]) -> float:
    return float(np.median(values)) if len(values) else 0.0


def _draw_requests(axes: Axes, trace: Trace) -> None:
    names = list(API_KEYS.values())
    for row, name in enumerate(names):
        whole, within = _median(trace.requests[name]), _median(trace.broker[name])
        count = len(trace.requests[name]) / len(trace.rounds)
        axes.barh(row, whole, color=NETWORK, height=0.6)
        axes.barh(row, within, color=BROKER, height=0.3)
        axes.text(max(whole, within), row, f"  {count:.1f} a round", va="center")
    axes.barh(0, 0, color=NETWORK, label="round trip, measured by the client")
    axes.barh(0, 0, color=BROKER, label="within the broker, while it logs requests")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.margins(x=0.3)
    axes.set_title("Requests of a commit, medians", loc="left")
    axes.set_xlabel("ms")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, -0.18), fontsize=8)
