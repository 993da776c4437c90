"""The command line: `python -m study.selective run|report`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from stream_app.errors import ArebaError
from stream_app.terminal import Terminal, say
from study.arguments import count
from study.selective.policies import POLICIES
from study.selective.results import RESULTS
from study.selective.streams import STREAMS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m study.selective", description="Labels that come late, or that depend on predictions."
    )
    parser.add_argument("command", choices=("run", "report"), help="run what is missing, or write the tables")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the CSV file of the figures")
    parser.add_argument(
        "--seeds", metavar="COUNT", type=count, help="how many seeds, 0 to COUNT - 1; by default those of the page"
    )
    parser.add_argument("--stream", nargs="+", choices=STREAMS, default=tuple(STREAMS), help="by default all")
    parser.add_argument("--policy", nargs="+", choices=POLICIES, default=tuple(POLICIES), help="by default all")
    parser.add_argument("--method", nargs="+", help="names, or NAME=package.module:Class for your own; by default all")
    parser.add_argument("--again", action="store_true", help="run what is asked for even if it is in the file")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    given = _parser().parse_args(arguments)
    if given.command == "report":
        from study.selective.report import write_pages  # noqa: PLC0415  (SciPy is an optional extra)

        try:
            write_pages(given.results)
        except ArebaError as error:
            say(str(error), err=True)
            return error.exit_code
        say("study/selective.md, its picture and docs/models.md have the tables of these figures")
        return 0
    from study.selective.methods import METHODS, own_method  # noqa: PLC0415  (Numba takes seconds)
    from study.selective.run import SEEDS, Asked, run_missing  # noqa: PLC0415

    own = {name: own_method(path) for name, _, path in (one.partition("=") for one in given.method or ()) if path}
    known = {**METHODS, **own}
    names = [one.partition("=")[0] for one in given.method or METHODS]
    if unknown := [name for name in names if name not in known]:
        _parser().error(f"no such method: {', '.join(unknown)}; there are {', '.join(METHODS)}")
    asked = Asked(given.stream, given.policy, {name: known[name] for name in names}, given.seeds or SEEDS)
    new = run_missing(asked, given.results, Terminal(stderr=True), again=given.again)
    say(f"{new} repetitions were run; {given.results} has the figures of all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
