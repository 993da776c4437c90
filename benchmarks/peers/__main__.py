"""`make bench-peers`: run every program on the same records in turns, and write the table into docs/benchmarks.md."""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import TypeAlias

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.progress import Progress

from benchmarks.peers.inputs import EXAMPLES_BY_ID, LABELS_BY_ID, send
from benchmarks.peers.latency import RATE, Latency, Watched, joins_of, latency, outcomes_of
from benchmarks.peers.measurement import Meter, Part, halves
from benchmarks.peers.programs import STREAMS_JOIN, Program, Run, areba, built_java, configuration, java, programs
from ops.keeper import KeptProcess, temporary_folder
from ops.local_kafka.cluster import LocalKafka
from ops.local_kafka.cluster import start as start_kafka
from ops.local_kafka.processes import KAFKA_JVM
from stream_app.cli.topic_setup import create_topics
from stream_app.cli.warm_up import warm_up
from stream_app.config.settings import WorkerSettings
from stream_app.terminal import Terminal

PAIRS = 500_000
PAIRS_OF_QUIX = 40_000
ROUNDS = 5
STOP_S = 30.0
TOPIC_S = 30.0

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = Path(__file__).with_name("results.json")
BEGIN, BEGIN_LATENCY, END = "<!-- make bench-peers -->\n", "<!-- make bench-peers: latency -->\n", "<!-- end -->\n"

Measured = Mapping[str, Sequence[tuple[Part, Part]]]
"""By program, both halves of each round."""

Latencies = Mapping[str, Sequence[Latency]]
"""By program, the figures of each round."""


def _create(servers: str, names: Sequence[str]) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for created in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        created.result(TOPIC_S)


def _measured(kafka: LocalKafka, program: Program, name: str, folder: Path) -> tuple[Part, Part]:
    """Run a program on its inputs, and return the figures of both halves."""
    folder.mkdir()
    servers = kafka.bootstrap_servers
    run = program.prepare(servers, name, folder)
    if program.name == "areba":
        create_topics(configuration(servers, name), 1, 1)
    else:
        _create(servers, run.outputs)
    log = folder / "log.txt"
    with log.open("wb") as output:
        process = KeptProcess(list(run.command), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    meter = Meter(servers, kafka.pid(1), run.outputs)
    try:
        samples = meter.samples(process, program.outputs * program.pairs)
    except (TimeoutError, ChildProcessError) as error:
        raise RuntimeError(f"{program.name}: {error}: {log.read_text(errors='replace')[-2_000:]}") from error
    finally:
        meter.close()
        process.end(STOP_S)
    return halves(samples, program.outputs)


def measure(rounds: int, pairs: int, pairs_of_quix: int) -> tuple[Mapping[str, Program], Measured, Latencies]:
    """Build the programs, send the records, and run each program once in each round, in turns.

    Then measure the latency, as often.
    """
    found: dict[str, list[tuple[Part, Part]]] = defaultdict(list)
    latencies: dict[str, list[Latency]] = defaultdict(list)
    with (
        temporary_folder("areba-peers-") as folder,
        start_kafka(1, jvm=KAFKA_JVM) as kafka,
        Progress(console=Terminal(stderr=True)) as progress,
    ):
        step = progress.add_task("building the programs", total=None)
        classes = built_java(folder)
        built = programs(folder, classes, pairs, pairs_of_quix)
        progress.update(step, description="sending the records")
        servers = kafka.bootstrap_servers
        _create(servers, (EXAMPLES_BY_ID, LABELS_BY_ID))
        config = configuration(servers, "warm")
        warm_up(config.task_settings())
        create_topics(config, 1, 1)
        send(servers, config, pairs)
        progress.update(step, total=rounds * len(built), completed=0)
        for number in range(rounds):
            for program in built.values():
                progress.update(step, description=program.name)
                name = f"run{number}-{program.name.lower().replace(' ', '-')}"
                found[program.name].append(_measured(kafka, program, name, folder / name))
                shutil.rmtree(folder / name)
                progress.advance(step)
        progress.update(step, total=rounds * len(STEADY), completed=0)
        for number in range(rounds):
            for kind, (name, start) in enumerate(STEADY.items()):
                progress.update(step, description=f"latency of {name}")
                latencies[name].append(_latency(kafka, start, classes, folder / f"latency{number}-{kind}"))
                progress.advance(step)
    return built, found, latencies


_Start: TypeAlias = Callable[[str, str, Path], tuple[Run, Watched]]
"""Takes the brokers, the class path and an empty folder, creates topics, and returns what to start and to wait for."""


def _start_areba(servers: str, _: str, folder: Path) -> tuple[Run, Watched]:
    config = configuration(servers, folder.name, f"{folder.name}.")
    create_topics(config, 1, 1)
    return areba(config, folder), outcomes_of(config)


def _start_streams(*more: str) -> _Start:
    def start(servers: str, classes: str, folder: Path) -> tuple[Run, Watched]:
        inputs, output = (f"{folder.name}-examples", f"{folder.name}-labels"), f"{folder.name}-joined"
        _create(servers, (*inputs, output))
        return java(classes, STREAMS_JOIN, servers, inputs, output, folder, *more), joins_of(inputs, output)

    return start


STEADY: Mapping[str, _Start] = MappingProxyType(
    {
        "areba": _start_areba,
        "Kafka Streams, which commits as often": _start_streams(str(WorkerSettings().commit_interval_ms)),
        "Kafka Streams with its defaults": _start_streams(),
    }
)
"""The programs whose latency is measured."""


def _latency(kafka: LocalKafka, start: _Start, classes: str, folder: Path) -> Latency:
    folder.mkdir()
    run, watched = start(kafka.bootstrap_servers, classes, folder)
    with (folder / "log.txt").open("wb") as output:
        process = KeptProcess(list(run.command), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    return latency(kafka, process, watched)


def _latency_rows(latencies: Latencies) -> Iterator[str]:
    """Yield the lines of the second table in Markdown."""
    yield "| program | p50 in ms | p99 in ms | cores of the program | cores of the broker |"
    yield "| --- |" + " ---: |" * 4
    for name, runs in latencies.items():
        p50, p99, *cores = zip(*runs, strict=True)
        cells = (_spread(p50, digits=1), _spread(p99, digits=1), *(_spread(one, digits=2) for one in cores))
        yield f"| {name} | {' | '.join(cells)} |"


def _spread(figures: Sequence[float], scale: float = 1.0, digits: int = 0) -> str:
    low, middle, high = (f"{figure / scale:,.{digits}f}" for figure in (min(figures), median(figures), max(figures)))
    return f"{middle} ({low} to {high})"


def _rows(built: Mapping[str, Program], found: Measured) -> Iterator[str]:
    """Yield the lines of the table in Markdown."""
    heads = (
        "thousands a second, first half",
        "second half",
        "CPU in us, first half",
        "second half",
        "broker's CPU in us",
    )
    yield f"| program | for each example with its label | {' | '.join(heads)} |"
    yield f"| --- | --- |{' ---: |' * len(heads)}"
    for name, program in built.items():
        first, second = ([parts[half] for parts in found[name]] for half in (0, 1))
        cells = (
            *(_spread([part.pairs_per_s for part in half], 1_000) for half in (first, second)),
            *(_spread([part.program_us for part in half], digits=1) for half in (first, second)),
            _spread([part.broker_us for part in second], digits=1),
        )
        outputs = "1 output" if program.outputs == 1 else f"{program.outputs} outputs"
        yield f"| {name} | {program.does}; {outputs} | {' | '.join(cells)} |"


def write(built: Mapping[str, Program], found: Measured, latencies: Latencies, rounds: int) -> None:
    """Write the tables into the page, and all figures into results.json."""
    text = PAGE.read_text(encoding="utf-8")
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    counts = ", ".join(f"{program.pairs:,} for {name}" for name, program in built.items())
    caption = f"Medians of {rounds} rounds (lowest to highest), {machine}.\nExamples: {counts}.\n"
    text = _replaced(text, BEGIN, [caption, *_rows(built, found)])
    steady = f"Medians of {rounds} rounds (lowest to highest), {RATE:,} examples and labels a second, {machine}.\n"
    text = _replaced(text, BEGIN_LATENCY, [steady, *_latency_rows(latencies)])
    PAGE.write_text(text, encoding="utf-8")
    figures = {name: [[asdict(part) for part in parts] for parts in rounds] for name, rounds in found.items()}
    steady_figures = {name: [run._asdict() for run in runs] for name, runs in latencies.items()}
    RESULTS.write_text(json.dumps({"full speed": figures, "steady": steady_figures}, indent=1) + "\n", "utf-8")


def _replaced(text: str, begin: str, lines: Sequence[str]) -> str:
    """Return the text with other lines in the place between a comment and the end of its table."""
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(END)
    return before + begin + "\n".join(lines) + "\n" + END + after


def main() -> None:
    """Measure, print, and write docs/benchmarks.md."""
    parser = argparse.ArgumentParser(prog="benchmarks.peers", description=__doc__)
    parser.add_argument("--short", action="store_true", help="run one small round, and write nothing")
    is_short = parser.parse_args().short
    built, found, latencies = measure(1, 20_000, 5_000) if is_short else measure(ROUNDS, PAIRS, PAIRS_OF_QUIX)
    sys.stdout.write("\n".join((*_rows(built, found), "", *_latency_rows(latencies))) + "\n")
    if not is_short:
        write(built, found, latencies, ROUNDS)


if __name__ == "__main__":
    main()
