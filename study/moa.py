"""Methods of the survey, run by MOA on the same examples as ours and scored in the same way.

    python -m study.moa --classpath 'DIR/*:CLASSES' --reps 1

writes each stream of the group `yardstick` as ARFF, lets MOA predict each example before it learns from it, and
appends a row for each stream, repetition and method to `study/results/yardstick-moa.csv`; rows that are there are not
run again. MOA's own jar (2021.07.0) has none of the methods; the class path must have them.
"""

import csv
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from stream_app.errors import ArebaError
from stream_app.producers.datasets.base import DataSet
from stream_app.terminal import say
from study.report.scores import average_from_both, curves_of
from study.run.experiment import choose, load_all, runs_of
from study.run.streams import data_of

METHODS = {
    "csarf": "moa.classifiers.meta.CSARF",
    "rose": "moa.classifiers.meta.imbalanced.ROSE",
    "kue": "moa.classifiers.meta.KUE",
}
"""The survey's command lines of three methods."""

RESULTS = Path(__file__).parent / "results" / "yardstick-moa.csv"

COLUMNS = ("run", "repetition", "method", "average", "final", "seconds")

TIMEOUT_S = 900
"""No method took longer than a minute for a stream."""


def write_arff(data: DataSet, path: Path) -> None:
    """Write a data set with numeric features in MOA's format."""
    header = ["@relation areba", *(f"@attribute x{k} numeric" for k in range(data.dimension)), "@attribute class {0,1}"]
    with path.open("w", encoding="utf-8") as file:
        file.write("\n".join([*header, "@data", ""]))
        for example, label in zip(data.features.tolist(), data.labels.tolist(), strict=True):
            file.write(",".join(map(repr, example)) + f",{label}\n")


def read_predictions(path: Path, labels: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return the classes that MOA predicted, int8 `[n]`.

    Raises:
        ArebaError: The file has another number of rows, or other true classes.
    """
    rows = [line.strip().split(",") for line in path.read_text(encoding="utf-8").splitlines()]
    classes = np.array([int(float(row[0])) for row in rows], np.int8)
    if len(classes) != len(labels) or any(int(float(row[1])) != label for row, label in zip(rows, labels, strict=True)):
        raise ArebaError(f"{path}: is not the prediction of this stream")
    return classes


def predict(classpath: str, method: str, arff: Path, folder: Path, timeout_s: float = TIMEOUT_S) -> Path:
    """Let MOA predict every example before it learns from it, and return the file of its predictions.

    Raises:
        ArebaError: MOA failed, or did not end in time.
    """
    output = folder / "predictions.csv"
    output.unlink(missing_ok=True)
    task = (
        f"EvaluatePrequential -l ({method}) -s (ArffFileStream -f {arff})"
        f" -e (BasicClassificationPerformanceEvaluator) -f 1000000 -o {output}"
    )
    command = ["java", "-cp", classpath, "moa.DoTask", task]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise ArebaError(f"{method}: did not end in {timeout_s} s") from error
    if done.returncode or not output.exists():
        raise ArebaError(f"{method}: MOA failed: {(done.stderr or done.stdout)[-500:]}")
    return output


def _finished() -> set[tuple[str, int, str]]:
    if not RESULTS.exists():
        return set()
    with RESULTS.open(encoding="utf-8", newline="") as file:
        return {(row["run"], int(row["repetition"]), row["method"]) for row in csv.DictReader(file)}


def _append(row: Sequence[object]) -> None:
    new = not RESULTS.exists()
    with RESULTS.open("a", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, row] if new else [row])


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--classpath", required=True, help="Jars of MOA and the compiled classes of the methods.")
@click.option("--reps", type=click.IntRange(1, 100), default=1, show_default=True, help="Repetitions of each stream.")
def main(names: Sequence[str], classpath: str, reps: int) -> None:
    """Run the survey's methods on the streams of the group `yardstick`, or on the named ones."""
    import time  # noqa: PLC0415  (this command alone has a clock)

    finished = _finished()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for repetition in range(reps):
            for run in choose(runs_of(load_all()), names or ["yardstick"]):
                data = data_of(run, repetition)
                arff = folder / "stream.arff"
                write_arff(data, arff)
                for method, line in METHODS.items():
                    if (run.name, repetition, method) in finished:
                        continue
                    start_s = time.perf_counter()
                    output = predict(classpath, line, arff, folder)
                    gmean = curves_of(read_predictions(output, data.labels), data.labels).gmean
                    average = average_from_both(gmean, data.labels)
                    seconds = time.perf_counter() - start_s
                    _append((run.name, repetition, method, f"{average:.6f}", f"{gmean[-1]:.6f}", f"{seconds:.1f}"))
                    say(f"{run.name} {repetition} {method} {average:.3f} {seconds:.0f} s")


if __name__ == "__main__":
    try:
        main()
    except ArebaError as error:
        say(str(error), err=True)
        sys.exit(error.exit_code)
