"""`make bench-peers`: run every program on the same records in turns, and write the table into docs/benchmarks.md."""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.progress import Progress

from benchmarks.peers.inputs import EXAMPLES_BY_ID, LABELS_BY_ID, send
from benchmarks.peers.measurement import Meter, Part, halves
from benchmarks.peers.programs import Program, configuration, programs
from ops.keeper import KeptProcess, temporary_folder
from ops.local_kafka.cluster import LocalKafka
from ops.local_kafka.cluster import start as start_kafka
from stream_app.cli.topic_setup import create_topics
from stream_app.cli.warm_up import warm_up
from stream_app.terminal import Terminal

PAIRS = 500_000
PAIRS_OF_QUIX = 40_000
ROUNDS = 5
STOP_S = 30.0
TOPIC_S = 30.0

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = Path(__file__).with_name("results.json")
BEGIN, END = "<!-- make bench-peers -->\n", "<!-- end -->\n"

Measured = Mapping[str, Sequence[tuple[Part, Part]]]
"""By program, both halves of each round."""


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


def measure(rounds: int, pairs: int, pairs_of_quix: int) -> tuple[Mapping[str, Program], Measured]:
    """Build the programs, send the records, and run each program once in each round, in turns."""
    found: dict[str, list[tuple[Part, Part]]] = defaultdict(list)
    with (
        temporary_folder("areba-peers-") as folder,
        start_kafka(1) as kafka,
        Progress(console=Terminal(stderr=True)) as progress,
    ):
        step = progress.add_task("building the programs", total=None)
        built = programs(folder, pairs, pairs_of_quix)
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
    return built, found


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


def write(built: Mapping[str, Program], found: Measured, rounds: int) -> None:
    """Write the table into the page, and all figures into results.json."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    counts = ", ".join(f"{program.pairs:,} for {name}" for name, program in built.items())
    caption = f"Medians of {rounds} rounds (lowest to highest), {machine}.\nExamples: {counts}.\n"
    PAGE.write_text(before + BEGIN + caption + "\n" + "\n".join(_rows(built, found)) + "\n" + END + after, "utf-8")
    figures = {name: [[asdict(part) for part in parts] for parts in rounds] for name, rounds in found.items()}
    RESULTS.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Measure, print, and write docs/benchmarks.md."""
    parser = argparse.ArgumentParser(prog="benchmarks.peers", description=__doc__)
    parser.add_argument("--short", action="store_true", help="run one small round, and write nothing")
    is_short = parser.parse_args().short
    built, found = measure(1, 20_000, 5_000) if is_short else measure(ROUNDS, PAIRS, PAIRS_OF_QUIX)
    sys.stdout.write("\n".join(_rows(built, found)) + "\n")
    if not is_short:
        write(built, found, ROUNDS)


if __name__ == "__main__":
    main()
