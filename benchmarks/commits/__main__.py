"""Trace one minute of commits at 2,000 examples and labels a second: `python -m benchmarks.commits`.

It draws `docs/commits.png`, and prints the figures of the picture.
"""

import argparse
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.commits.picture import draw
from benchmarks.commits.trace import API_KEYS, STEPS, Trace, run, send
from ops.local_kafka.cluster import start
from ops.local_kafka.processes import KAFKA_JVM
from stream_app.terminal import Terminal

PICTURE = Path(__file__).parents[2] / "docs" / "commits.png"


def _line(name: str, values: list[float], count: float) -> str:
    p50, p99 = np.percentile(values, (50, 99)) if values else (0.0, 0.0)
    return f"{name:<20} {count:>6.2f} {p50:>8.2f} {p99:>8.2f}"


def _print(trace: Trace) -> None:
    console, rounds = Terminal(width=100), len(trace.rounds)
    whole = [(spans[-1].end_s - spans[0].start_s) * 1000 for spans in trace.rounds]
    console.print(f"{rounds} commits; a round takes {median(whole):.1f} ms")
    console.print(f"{'step of the worker':<20} {'a round':>6} {'p50 ms':>8} {'p99 ms':>8}")
    for step in STEPS:
        sums = [sum(1000 * (s.end_s - s.start_s) for s in spans if s.step == step) for spans in trace.rounds]
        console.print(_line(step, sums, sum(s.step == step for spans in trace.rounds for s in spans) / rounds))
    console.print("round trips, as the client measures them, and the part of them within the broker")
    for request in API_KEYS.values():
        console.print(_line(request, list(trace.requests[request]), len(trace.requests[request]) / rounds))
        console.print(_line("  in the broker", list(trace.broker[request]), 1))


def main() -> None:
    """Trace and draw; or send records for the trace, in a process of its own."""
    parser = argparse.ArgumentParser(prog="benchmarks.commits", description=__doc__)
    parser.add_argument("--send-to", metavar="SERVERS", help="only send the records of the trace")
    arguments = parser.parse_args()
    if arguments.send_to:
        send(arguments.send_to)
        return
    with start(1, jvm=KAFKA_JVM) as kafka:
        trace = run(kafka)
    _print(trace)
    draw(trace, PICTURE)


if __name__ == "__main__":
    main()
