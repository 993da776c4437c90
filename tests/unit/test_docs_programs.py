"""The programs in the docs run as printed, and do what the text says."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.image import imread

from stream_app.admin.saved_models.onnx_model import onnx_model
from stream_app.config import LearnerSettings
from stream_app.snapshot.model_file import ModelFile
from tests.support.documents import ROOT, blocks
from tests.support.learner_steps import learner

TUTORIAL = blocks((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"), "python")
COLUMNS = blocks((ROOT / "docs" / "columns.md").read_text(encoding="utf-8"), "python")
MODELS = blocks((ROOT / "docs" / "models.md").read_text(encoding="utf-8"), "python")
OWN_LEARNER = blocks((ROOT / "docs" / "own_learner.md").read_text(encoding="utf-8"), "python")

SHORTEST_LINES = 12


def _run(program: str, folder: Path, given: str = "") -> list[str]:
    """Run a program in a folder on this input, and return the lines that it prints."""
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    result = subprocess.run(
        command, cwd=folder, env=environment, input=given, capture_output=True, text=True, timeout=500, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@pytest.mark.slow
def test_the_tutorial_shows_what_it_says(tmp_path: Path) -> None:
    """A learner of the tool who sees other lines than the page promises stops trusting the page."""
    _, first, late, crash, *_ = TUTORIAL
    gmeans = {}
    for line in _run(first, tmp_path):
        labelled, learner, gmean = line.split()
        gmeans[int(labelled), learner] = float(gmean)
    assert gmeans[2_000, "areba"] > 0.9
    assert gmeans[3_000, "areba"] > 0.8
    assert gmeans[3_000, "areba"] > gmeans[3_000, "baseline"] + 0.1
    assert _run(late, tmp_path) == ["a joined 1 60000", "c joined 0 -1000", "b unlabelled None None"]
    assert _run(crash, tmp_path) == []


@pytest.mark.slow(4)
def test_the_shortest_program_runs_as_printed(tmp_path: Path) -> None:
    """The first program that a newcomer runs without Kafka prints a prediction and a metric."""
    program = TUTORIAL[0]
    assert len(program.splitlines()) <= SHORTEST_LINES
    prediction, metrics = _run(program, tmp_path)
    assert prediction.startswith("Prediction(stream='pumps', id='pump-4999', learner='areba', champion=True, score=")
    found = re.findall(r"\('(\w+)', ([\d.]+)\)", metrics)
    assert [learner for learner, _ in found] == ["areba", "baseline"]
    assert float(found[0][1]) > 0.85, metrics


@pytest.mark.slow(4)
def test_the_picture_of_the_tutorial_is_drawn(tmp_path: Path) -> None:
    """The last step of the tutorial is the first time that a reader sees the model learn."""
    documents = [
        {"value": {"learner": learner, "examples": examples, "windows": [{"gmean": gmean}]}}
        for examples, gmean in ((50, None), (100, 0.5), (150, 0.75))
        for learner in ("areba", "baseline")
    ]
    _run(TUTORIAL[-1], tmp_path, "".join(f"{json.dumps(document)}\n" for document in documents))
    assert imread(tmp_path / "gmean.png").std() > 0


@pytest.mark.slow(5)
def test_exported_models_predict_without_areba(tmp_path: Path) -> None:
    """The two programs of models.md read the same model, so they print the same score."""
    settings = LearnerSettings(method="baseline")
    state = dict(learner(54, method="baseline").arrays())
    file = ModelFile(state, settings, 54, {"learner": "own"})
    (tmp_path / "champion.safetensors").write_bytes(file.to_bytes())
    (tmp_path / "champion.onnx").write_bytes(onnx_model(file))
    plain, other = (float(_run(program, tmp_path)[0]) for program in MODELS)
    assert plain == pytest.approx(other, abs=1e-6)
    assert plain != 0.5


@pytest.mark.slow
def test_the_learner_of_the_docs_survives_a_crash(tmp_path: Path) -> None:
    """Users copy this example."""
    learner, trial = OWN_LEARNER
    (tmp_path / "my_learners.py").write_text(learner, encoding="utf-8")
    (gmean,) = _run(trial, tmp_path)
    assert float(gmean) > 0.9


def test_the_programs_for_columns_run(tmp_path: Path) -> None:
    """They are the first that somebody with a table, or with messages, copies."""
    columns, texts = COLUMNS
    assert _run(columns, tmp_path) == ["['payment-1', 'payment-2']"]
    assert _run(texts, tmp_path) == ["5.0"]


def test_the_glossary_is_in_order() -> None:
    """A reader looks a word up by its first letter."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"^\*\*(.+?)\*\*", text, re.MULTILINE)
    assert words == sorted(words, key=str.lower)
    wanted = (
        "act breaker budget challenger champion changelog closed commit correction degradation digest drift example "
        "expiry fencing instance label learner mark method network outcome parked part partition pending prediction "
        "prequential progress queue repair settle snapshot stream task waiting"
    )
    assert set(wanted.split()) <= {word.lower() for word in words}
    assert {"dead letter", "event time", "fading factor", "g-mean", "hanging transaction", "stream time"} <= {
        word.lower() for word in words
    }
