"""The command line: `python -m study.relay` runs the 55 runs and writes their figures.

`python -m study report` makes their page.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from study.relay.runs import RESULTS, RUNS, SECOND, STORE, run_missing, runs
from study.relay.verdicts import write_results


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m study.relay", description="RELAY against AREBA_20 on 55 runs of the study."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="runs; by default all")
    parser.add_argument(
        "--repetitions", type=int, default=SECOND, help="repetitions of the short runs, and of those named"
    )
    parser.add_argument("--store", type=Path, default=STORE, help="folder of finished repetitions")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of the figures")
    given = parser.parse_args(arguments)
    if unknown := set(given.names) - {name for name, _ in RUNS}:
        parser.error(f"no such run: {', '.join(sorted(unknown))}")
    scores = run_missing(runs(given.repetitions, given.names), given.store)
    given.results.parent.mkdir(parents=True, exist_ok=True)
    write_results(scores, given.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
