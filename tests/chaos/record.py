"""The record of trials: one JSON line each, and the page that is made from them."""

import json
import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from tests.chaos.trial import Result

FILE = "record.jsonl"

PAGE_HEAD = """# Chaos

Workers and brokers of a real Apache Kafka cluster (three brokers on one machine, every topic replicated to all) are
killed on a seeded schedule while records keep arriving; some records are late, sent twice, contradictory or garbage.
The run consists of trials, each on a new cluster. At the end of each trial, every output record is compared, byte for
byte, with what a fresh process computes from the same inputs along the recorded ranges, and so is every model; then
`areba verify` checks that every record is accounted for. A single difference ends the run.

    make chaos N={kills} SEED={seed}     # continues where it was stopped; `python -m tests.chaos --help`
"""

PAGE_TAIL = """
- Workers are forked from one process that has loaded all code (`tests/chaos/forks.py`), unless the run has `--plain`;
  otherwise, a thousand kills would spend an hour on starting Python. Each worker is a process with its own Kafka
  clients, and SIGKILL ends it.
- A failed trial leaves its workers' logs and its brokers' data in the folder of the record. Its seed and number give
  the same schedule again, but not the same timing. To read its topics, start its brokers:
  `python -m ops.local_kafka up --brokers 3 --folder FOLDER/kafka`.
- A worker that was frozen for longer than its session timeout (6 s here) has lost its tasks when it wakes; some workers
  are frozen for longer than a transaction may last (10 s).
- `worker.snapshot_after_ms` is 0, 5, 50 and 2,000 in the four workers, and the changelog is compacted continuously.
- A worker killed while `restoring` owns tasks, but has not yet processed a new record; a worker killed while `saving`
  is writing a snapshot to the changelog.
"""


def read(folder: Path) -> Iterator[Result]:
    """Yield the trials that are finished."""
    file = folder / FILE
    names = {field.name for field in fields(Result)}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        yield Result(**{name: value for name, value in json.loads(line).items() if name in names})


def append(folder: Path, result: Result) -> None:
    """Add a finished trial."""
    with (folder / FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(result)) + "\n")


def page(results: Sequence[Result]) -> str:
    """Return the page of the documentation, in Markdown."""
    kills = sum(result.kills for result in results)
    seeds = ", ".join(map(str, sorted({result.seed for result in results})))
    head = PAGE_HEAD.format(kills=kills, seed=results[0].seed)
    lines = [head, *_rows("what", "", _summary(results, seeds)), *_counts(results)]
    return "\n".join([*lines, PAGE_TAIL])


def _summary(results: Sequence[Result], seeds: str) -> Mapping[str, str]:
    kills = sum(result.kills for result in results)
    duration_s = sum(result.duration_s for result in results)
    firsts = sorted(value for result in results for value in result.first_commits_ms)
    used, left = (sum(result.changelog[number] for result in results) for number in (0, 1))
    return {
        "result": f"{len(results)} of {len(results)} trials: no byte differs",
        "kills (SIGKILL)": f"{kills:,}",
        "seeds": seeds,
        "duration": f"{duration_s / 3600:.2f} h, {duration_s / kills:.1f} s per kill",
        "machine": f"{_several(result.cores for result in results)} cores, {platform.machine()}, three brokers on it",
        "trials with workers in new interpreters": _sum(not result.forked for result in results),
        "areba": _several(result.version for result in results),
        "input records, all checked": f"{sum(result.records for result in results):,}",
        "output records, all compared": f"{sum(result.outputs for result in results):,}",
        "commits": f"{sum(result.commits for result in results):,}",
        "commits per kill": f"{sum(result.commits for result in results) / kills:.1f}",
        "transactions cut off after their commit record": f"{sum(result.aborted for result in results):,}",
        "workers that restarted themselves (fenced, unknown outcome)": _sum(r.restarts for r in results),
        "snapshots": f"{sum(result.snapshots for result in results):,}",
        "changelog offsets used, records left by compaction": f"{used:,}, {left:,}",
        "from process start to first commit, ms (p50, p99)": f"{_quantile(firsts, 0.5):,}, {_quantile(firsts, 0.99):,}",
    }


def _counts(results: Sequence[Result]) -> Iterator[str]:
    for title, counts in (
        ("fault", [result.faults for result in results]),
        ("workers killed while", [result.stages for result in results]),
    ):
        total: Counter[str] = Counter()
        for one in counts:
            total.update(one)
        yield ""
        yield from _rows(title, "times", {name: f"{count:,}" for name, count in sorted(total.items())})


def _rows(name: str, value: str, rows: Mapping[str, Any]) -> Iterator[str]:
    yield f"| {name} | {value} |"
    yield "| --- | --- |"
    for left, right in rows.items():
        yield f"| {left} | {right} |"


def _several(values: Iterable[object]) -> str:
    return ", ".join(sorted(set(map(str, values))))


def _sum(values: Iterable[int]) -> str:
    return f"{sum(values):,}"


def _quantile(ordered: Sequence[int], share: float) -> int:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0
