"""Tuning on a prefix and the survey's streams: grids, choices, pages, and what MOA reads and writes."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("statsmodels", reason="the optional extra `study` is not installed")

from stream_app.errors import ArebaError, ConfigurationError
from stream_app.producers.datasets.base import DataSet
from study.moa import read_predictions, write_arff
from study.report.rivals.colours import MOA_COLOURS, RIVER_COLOURS, rivals_colour
from study.report.rivals.pages import write_pages
from study.report.rivals.yardstick import Row, higher
from study.report.summary import RunSummary, summarise
from study.run.experiment import SEPARATE_GROUPS, Run, load_all, parse, runs_of
from study.run.grid import expanded
from study.run.runs import Repetition, repeat
from study.run.store import Store, engine_version, own_code

LENGTH = 300

GENERATED: dict[str, Any] = {
    "name": "yardstick-static-sea",
    "title": "SEA",
    "group": "yardstick",
    "stream": {"source": "study.generators:sea", "length": LENGTH, "imbalance": 10},
    "methods": {"areba_20": {"method": "areba", "budget": 20}, "baseline": None},
}


def test_a_grid_is_an_experiment_for_each_stream_and_combination() -> None:
    """A missing combination would be a setting that no method could be tuned to."""
    streams = {"a": {"source": "sine", "title": "First", "seed": 7}, "b": {"source": "credit"}}
    grid = {"learning_rate": [0.1, 0.01], "scaler": ["none", "standard"]}
    rest = {"name": "file", "group": "tuning", "methods": {"baseline": None, "oob": {"learning_rate": 0.5}}}
    experiments = [parse(one, "") for one in expanded({**rest, "streams": streams, "grid": grid}, "file.yaml")]
    assert [one.name for one in experiments[:2]] == ["file-a.0.1-none", "file-a.0.1-standard"]
    assert len(experiments) == 8
    assert [one.seed for one in experiments] == [7] * 4 + [0] * 4
    assert experiments[3].methods["baseline"].learning_rate == 0.01
    assert experiments[3].methods["baseline"].scaler == "standard"
    assert experiments[3].methods["oob"].learning_rate == 0.5
    with pytest.raises(ConfigurationError, match="grid"):
        expanded({**rest, "streams": streams, "grid": {"scaler": "none"}}, "file.yaml")


def test_every_stream_that_is_judged_has_its_prefix_with_other_seeds() -> None:
    """Settings chosen on the evaluated repetitions themselves would flatter every method."""
    own = {one.name: one for one in load_all() if one.group in SEPARATE_GROUPS}
    prefixes = {name: one for name, one in own.items() if "prefix" in name}
    assert len(prefixes) == 36
    for name, prefix in prefixes.items():
        judged = own[name.replace("prefix-", "")]
        assert prefix.methods == judged.methods
        assert abs(prefix.seed - judged.seed) > max(prefix.repetitions, judged.repetitions)
        assert (prefix.stream.length or 0) <= 0.26 * (judged.stream.length or 1_000)


def test_a_generators_stream_is_learnt_like_any_other() -> None:
    """An experiment on a generator's stream runs, and a change of the generator's code runs it again."""
    run = Run(parse(GENERATED, ""), "both")
    one, two = repeat(run, 0), repeat(run, 1)
    assert one.classes.shape == (2, LENGTH)
    assert (one.classes >= 0).all()
    assert not np.array_equal(one.labels, two.labels)
    assert own_code(run).startswith("study.generators ")
    with pytest.raises(ConfigurationError, match="drift is only for synthetic streams"):
        parse({**GENERATED, "stream": {**GENERATED["stream"], "drift": "prior"}}, "")


@pytest.mark.slow(5)
@pytest.mark.parametrize("sampling", ["none", "over", "under"])
@pytest.mark.parametrize("model", ["AdwinBagging", "StreamingRandomPatches", "LogisticRegression"])
def test_rivers_models_run_in_its_samplers(model: str, sampling: str) -> None:
    """A rival that only runs without its sampler would be a straw man."""
    pytest.importorskip("river")
    options = {"sampling": sampling, **({} if model == "LogisticRegression" else {"grace_period": 10})}
    methods = {"river": {"method": f"study.river_models:{model}", "options": options}}
    repetition = repeat(Run(parse({**GENERATED, "methods": methods}, ""), "both"), 0)
    assert 0 <= repetition.classes.min() <= repetition.classes.max() <= 1


OURS: dict[str, Any] = {"areba_20": {"method": "areba", "budget": 20}, "baseline": None}
RIVALS: dict[str, Any] = {"relay": None, "river_lr_over": {"method": "study.river_models:OversampledLogistic"}}


def _grid_run(name: str, wrong: float, store: Store, seed: int, methods: dict[str, Any] = OURS) -> Run:
    stream = {"source": "sine", "length": LENGTH, "imbalance": 10}
    run = runs_of([parse({"name": name, "title": name, "group": "tuning", "stream": stream, "methods": methods}, "")])[
        0
    ]
    for repetition in range(4):
        draw = np.random.default_rng([seed, repetition])
        labels = (draw.random(LENGTH) < 0.3).astype(np.int8)
        classes = (labels ^ (draw.random((2, LENGTH)) < np.array([[wrong], [0.2]]))).astype(np.int8)
        store.put(run, repetition, Repetition(classes, classes.astype(np.float32), labels, 1.0))
    return run


def _summaries(runs: list[Run], store: Store) -> dict[str, RunSummary]:
    return {run.name: summary for run in runs if (summary := summarise(run, store)) is not None}


@pytest.mark.slow(5)
def test_the_setting_is_chosen_on_the_prefix_and_judged_on_the_stream(tmp_path: Path) -> None:
    """A setting that is best on the stream itself, but not on its prefix, is hindsight, not tuning."""
    store = Store(tmp_path / "store", engine_version())
    runs = [
        _grid_run("tuning-sine.0.01-none", 0.3, store, 1),
        _grid_run("tuning-sine.0.1-none", 0.01, store, 2),
        _grid_run("tuning-sine.0.003-standard", 0.1, store, 3),
        _grid_run("tuning-prefix-sine.0.01-none", 0.3, store, 4),
        _grid_run("tuning-prefix-sine.0.1-none", 0.2, store, 5),
        _grid_run("tuning-prefix-sine.0.003-standard", 0.01, store, 6),
        _grid_run("rivals-sine", 0.05, store, 7, RIVALS),
        _grid_run("rivals-prefix-sine", 0.05, store, 8, RIVALS),
    ]
    assert list(write_pages(_summaries(runs, store), tmp_path, tmp_path)) == ["tuning"]
    with (tmp_path / "tuning.csv").open(encoding="utf-8", newline="") as file:
        rows = {(row["method"], row["kind"]): row for row in csv.DictReader(file)}
    assert rows["areba_20", "untuned"]["setting"] == "0.01"
    assert rows["areba_20", "tuned"]["setting"] == "0.003, scaled"
    assert rows["areba_20", "hindsight"]["setting"] == "0.1"
    assert {rows["relay", kind]["setting"] for kind in ("untuned", "tuned", "hindsight")} == {"alone"}
    text = (tmp_path / "tuning.md").read_text(encoding="utf-8")
    assert "- Tuned, the paper's methods: areba_20 leads" in text
    assert "- Untuned, all: relay leads" in text
    assert (tmp_path / "tuning.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow(5)
def test_the_survey_page_has_moas_methods_beside_ours(tmp_path: Path) -> None:
    """Without them, the page could not say how AREBA does against the field's methods."""
    store = Store(tmp_path / "store", engine_version())
    run = Run(parse(GENERATED, ""), "both")
    for repetition in range(2):
        store.put(run, repetition, repeat(run, repetition))
    line = "yardstick-static-sea,0,rose,0.990000,0.900000,1.0"
    (tmp_path / "yardstick-moa.csv").write_text(f"run,repetition,method,average,final,seconds\n{line}\n")
    assert list(write_pages(_summaries([run], store), tmp_path, tmp_path)) == ["yardstick"]
    text = (tmp_path / "yardstick.md").read_text(encoding="utf-8")
    assert "| 0.990 |" in text, "one run is not the best of means"
    assert text.count("**0.") == 1
    assert "| rose | 1 of 1 | 1 of 1 |  |" in text


def test_methods_are_compared_on_the_repetitions_that_both_have() -> None:
    """A method with one repetition would win or lose by streams that it has never seen."""
    one = Row("static", "sea", {"ours": np.array([0.5, 0.9]), "theirs": np.array([0.6])})
    alone = Row("static", "sine", {"ours": np.array([0.5])})
    assert (higher([one, alone], "ours", "theirs"), higher([one, alone], "theirs", "ours")) == ((0, 1), (1, 1))


def test_moa_reads_what_we_write_and_its_answers_must_fit(tmp_path: Path) -> None:
    """Answers to another stream, or to a shifted one, would be scored as if they were right."""
    features, labels = np.array([[0.25, 1e-7], [0.5, 1.0]], np.float32), np.array([0, 1], np.int8)
    write_arff(DataSet("x", features, labels, None, "", "synthetic", 0.01), tmp_path / "x.arff")
    lines = (tmp_path / "x.arff").read_text().splitlines()
    assert lines[-1] == "0.5,1.0,1"
    assert [np.float32(value) for value in lines[-2].split(",")[:2]] == features[0].tolist()
    (tmp_path / "answers.csv").write_text("1,0\n1,1\n")
    assert read_predictions(tmp_path / "answers.csv", labels).tolist() == [1, 1]
    with pytest.raises(ArebaError):
        read_predictions(tmp_path / "answers.csv", 1 - labels)


def test_no_two_rivals_share_a_colour() -> None:
    """Two methods of one colour cannot be told apart in a figure."""
    from study.report.drawing.colours import COLOURS  # noqa: PLC0415  (matplotlib takes a second)

    methods = {
        COLOURS[name]
        for name in ("areba_20", "areba_50", "areba_2", "qbr_20", "oob", "uob", "sliding", "baseline", "relay")
    }
    rivals = [*RIVER_COLOURS.values(), *MOA_COLOURS.values()]
    assert len({*rivals, *methods}) == len(rivals) + len(methods)
    assert rivals_colour("river_arf_over_fast") == RIVER_COLOURS["river_arf"]
