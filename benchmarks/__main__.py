"""`make bench`: run every benchmark, print the table, write `benchmarks/results.json`.

`python -m benchmarks GROUP ...` measures these groups alone, and replaces their rows.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.progress import Progress
from rich.table import Table

from benchmarks import codec, cold_start, learners, metrics_cost, opening, way
from benchmarks.kafka import latency, rebalances, restarts, scaling, snapshots, worker
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
    "latency": latency.rows,
    "scaling": scaling.rows,
    "cold start": cold_start.rows,
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


def main(arguments: list[str]) -> None:
    """Run the named groups, or all of them, and store their rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("groups", nargs="*", choices=GROUPS, metavar="GROUP", help=f"one of {', '.join(GROUPS)}")
    chosen = {name: GROUPS[name] for name in parser.parse_args(arguments).groups or GROUPS}
    rows: dict[str, list[Row]] = {}
    console = Terminal(width=160 if not sys.stdout.isatty() else None)
    begin = time.monotonic()
    with Progress(console=Terminal(stderr=True)) as progress:
        steps = progress.add_task("benchmarks", total=len(chosen))
        for name, run in chosen.items():
            progress.update(steps, description=name)
            rows[name] = run()
            progress.advance(steps)
    console.print(table([row for found in rows.values() for row in found]))
    console.print(f"{time.monotonic() - begin:.0f} s")
    _store(rows)
    console.print(f"written: {RESULTS.relative_to(Path.cwd()) if RESULTS.is_relative_to(Path.cwd()) else RESULTS}")


def _store(rows: Mapping[str, list[Row]]) -> None:
    """Replace the rows of these groups in `benchmarks/results.json`."""
    stored = [row for row in json.loads(RESULTS.read_text(encoding="utf-8")) if row["group"] not in rows]
    stored += [{"group": group, **row.as_json()} for group, found in rows.items() for row in found]
    order = list(GROUPS)
    stored.sort(key=lambda row: order.index(row["group"]))
    RESULTS.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
