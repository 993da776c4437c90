"""One row of the table of speeds, and how it is timed."""

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A measurement beside its reference.

    Attributes:
        name: What was measured, against what.
        d: Features of an example.
        ours_us: Median microseconds an event, ours; another figure where `unit` says so.
        reference_us: The same for the reference; None where there is none.
        ratio: How many times faster (`reference / ours`) or slower (`ours / reference`): `reach` says which.
        reach: The figure to reach, in words: `>= 300x faster`, `<= 1.3x its time`.
        reached: Whether it was reached; None where nothing was asked.
        unit: Of both figures.
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
        """As `benchmarks/results.json` has it."""
        return asdict(self)


def faster(name: str, d: int, ours_us: float, reference_us: float, times: float) -> Row:
    """A row that asks to be so many times faster than the reference."""
    ratio = reference_us / ours_us
    return Row(name, d, ours_us, reference_us, ratio, f">= {times:g}x faster", ratio >= times)


def at_most(name: str, d: int, ours_us: float, reference_us: float, times: float) -> Row:
    """A row that asks to take at most so many times what the reference takes."""
    ratio = ours_us / reference_us
    return Row(name, d, ours_us, reference_us, ratio, f"<= {times:g}x its time", ratio <= times)


def below(name: str, d: int, figure: float, unit: str, most: float) -> Row:
    """A row that asks for less than so much of a unit."""
    return Row(name, d, figure, None, None, f"< {most:g} {unit}", figure < most, unit)


def median_cpu_us(run: Callable[[], int], repetitions: int) -> float:
    """Median CPU microseconds an event over the repetitions; `run` returns how many events it handled."""
    figures = []
    for _ in range(repetitions):
        start = time.process_time_ns()
        events = run()
        figures.append((time.process_time_ns() - start) / 1000 / events)
    return statistics.median(figures)
