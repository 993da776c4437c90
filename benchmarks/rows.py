"""The rows of the table of speeds, and the timer."""

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A measurement and its reference.

    Attributes:
        name: What was measured, and against which reference.
        d: The number of features of an example.
        ours_us: Our median microseconds per event, or another figure, as `unit` says.
        reference_us: The same for the reference; None: there is no reference.
        ratio: How many times faster (`reference / ours`) or slower (`ours / reference`): `reach` says which.
        reach: The target, in words: `>= 300x faster`, `<= 1.3x its time`.
        reached: Whether the target was reached; None: there is no target.
        unit: The unit of both figures.
    """

    name: str
    d: int
    ours_us: float
    reference_us: float | None
    ratio: float | None
    reach: str
    reached: bool | None
    unit: str = "us"

    def as_json(self) -> dict[str, object]:
        """Return the row as `benchmarks/results.json` stores it."""
        return asdict(self)


def faster(name: str, d: int, ours_us: float, reference_us: float, times: float) -> Row:
    """Return a row whose target is a speed: at least this many times that of the reference."""
    ratio = reference_us / ours_us
    return Row(name, d, ours_us, reference_us, ratio, f">= {times:g}x faster", ratio >= times)


def at_most(name: str, d: int, ours_us: float, reference_us: float, times: float, unit: str = "us") -> Row:
    """Return a row whose target is a time: at most this many times that of the reference."""
    ratio = ours_us / reference_us
    return Row(name, d, ours_us, reference_us, ratio, f"<= {times:g}x its time", ratio <= times, unit)


def below(name: str, d: int, figure: float, unit: str, most: float) -> Row:
    """Return a row whose target is a figure below `most`."""
    return Row(name, d, figure, None, None, f"< {most:g} {unit}", figure < most, unit)


def median_cpu_us(run: Callable[[], int], repetitions: int) -> float:
    """Return the median CPU microseconds per event of the repetitions; `run` returns how many events it handled."""
    figures = []
    for _ in range(repetitions):
        start = time.process_time_ns()
        events = run()
        figures.append((time.process_time_ns() - start) / 1000 / events)
    return statistics.median(figures)
