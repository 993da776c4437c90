"""`make bench`: run every benchmark, print the table, write `benchmarks/results.json`."""

import json
import platform
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.progress import Progress
from rich.table import Table

from benchmarks import codec, learners, metrics_cost, opening, rebalances, restarts, snapshots, way, worker
from benchmarks.rows import Row
from stream_app.terminal import Terminal

RESULTS = Path(__file__).with_name("results.json")

GROUPS: Mapping[str, Callable[[], list[Row]]] = {
    "learners": learners.rows,
    "codec": codec.rows,
    "way": way.rows,
    "opening": opening.rows,
    "metrics": metrics_cost.rows,
    "worker": worker.rows,
    "snapshots": snapshots.rows,
    "restarts": restarts.rows,
    "rebalances": rebalances.rows,
}


def table(rows: list[Row]) -> Table:
    """Return the table for people."""
    result = Table(title=f"Medians on {platform.machine()}, Python {platform.python_version()}")
    for column, justify in (("what", "left"), ("d", "right"), ("ours", "right"), ("reference", "right")):
        result.add_column(column, justify="left" if justify == "left" else "right")
    result.add_column("ratio", justify="right")
    result.add_column("reach", justify="right")
    result.add_column("reached")
    for row in rows:
        reference = "" if row.reference_us is None else f"{row.reference_us:,.2f} {row.unit}"
        ratio = "" if row.ratio is None else f"{row.ratio:,.2f}"
        reached = {None: "", True: "yes", False: "NO"}[row.reached]
        result.add_row(row.name, str(row.d), f"{row.ours_us:,.2f} {row.unit}", reference, ratio, row.reach, reached)
    return result


def main(names: list[str]) -> None:
    """Run the named groups, or all of them; only a full run writes `benchmarks/results.json`."""
    chosen = {name: GROUPS[name] for name in names} if names else GROUPS
    rows: list[Row] = []
    console = Terminal(width=160 if not sys.stdout.isatty() else None)
    begin = time.monotonic()
    with Progress(console=Terminal(stderr=True)) as progress:
        steps = progress.add_task("benchmarks", total=len(chosen))
        for name, run in chosen.items():
            progress.update(steps, description=name)
            rows.extend(run())
            progress.advance(steps)
    console.print(table(rows))
    console.print(f"{time.monotonic() - begin:.0f} s")
    if not names:
        RESULTS.write_text(json.dumps([row.as_json() for row in rows], indent=1) + "\n", encoding="utf-8")
        console.print(f"written: {RESULTS.relative_to(Path.cwd()) if RESULTS.is_relative_to(Path.cwd()) else RESULTS}")


if __name__ == "__main__":
    main(sys.argv[1:])
