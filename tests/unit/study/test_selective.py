"""The benchmark of late and selective labels."""

import csv
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("scipy", reason="the optional extra `study` is not installed")

from stream_app.errors import ArebaError
from stream_app.learners.api import Operations
from stream_app.pipeline.task import Task
from stream_app.producers.synthetic import Drift, SyntheticSpec, synthetic
from stream_app.records import Operation
from study.run.checked import BATCH_EXAMPLES, answer
from study.run.experiment import Checks, Run, parse
from study.run.runs import START_MS, TOPICS, same_seed, settings_of
from study.selective.__main__ import main
from study.selective.fake_negatives import HIDDEN, FakeNegatives, score_of, take_step
from study.selective.methods import AREBA_20, METHODS, RELAY, ChecksAndLate, OneLearner, seed_of_method
from study.selective.policies import POLICIES, CheckedAlerts, LabelPolicy, Late
from study.selective.report import MODELS_PAGE, PAGE, Measured, for_labels_page, models_table, tables, write_pages
from study.selective.results import RESULTS, Repetition, read_results, write_results
from study.selective.run import measure
from study.selective.scoring import figures_of, kappa
from study.selective.streams import ALL_STREAMS, FIELD_STREAMS, STREAMS, resets_of, seeds_of
from study.selective.world import Steps, predictions_of
from tests.support.documents import ROOT


class _Recorder:
    """Predicts class 1 for every third example, and remembers what it is shown."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, int]] = []

    def run(self, steps: Steps) -> NDArray[np.int8]:
        rows = zip(*(column.tolist() for column in vars_of(steps.operations)), strict=True)
        self.seen += rows
        slots = steps.operations.slots[steps.predicts]
        classes: NDArray[np.int8] = (slots % 3 == 0).astype(np.int8)
        return classes


def vars_of(operations: Operations) -> tuple[NDArray[np.generic], ...]:
    """Return the columns of operations."""
    return operations.codes, operations.slots, operations.labels


def _recorded(policy: LabelPolicy, count: int = 400) -> tuple[list[tuple[int, int, int]], NDArray[np.int8]]:
    recorder, truth = _Recorder(), (np.random.default_rng(1).random(count) < 0.2).astype(np.int8)
    predictions_of(recorder, truth, policy)
    return recorder.seen, truth


@pytest.mark.parametrize("delay", [0, 7, 120])
def test_a_late_label_comes_between_the_right_examples(delay: int) -> None:
    """A label that came one example early would be one that no learner can have."""
    seen, truth = _recorded(Late(delay))
    labels = {slot: place for place, (code, slot, _) in enumerate(seen) if code == Operation.LEARN}
    predicted = {slot: place for place, (code, slot, _) in enumerate(seen) if code == Operation.PREDICT}
    assert len(labels) == len(truth) - 1 - delay
    for slot, place in labels.items():
        assert predicted[slot + delay] < place < predicted[slot + delay + 1]
        assert seen[place][2] == truth[slot]


def test_a_missed_positive_is_negative_until_its_complaint() -> None:
    """If a missed positive were shown early, the benchmark would have no selective labels."""
    seen, truth = _recorded(CheckedAlerts(Checks(labelled_examples=0, timeout_examples=100, complaint_examples=150)))
    predicted = {slot: place for place, (code, slot, _) in enumerate(seen) if code == Operation.PREDICT}
    corrected = set()
    for place, (code, slot, label) in enumerate(seen):
        if code == Operation.LEARN:
            is_checked = slot % 3 == 0
            assert label == (truth[slot] if is_checked else 0)
            assert predicted[slot] < place < predicted[min(slot + (BATCH_EXAMPLES if is_checked else 101), 399)]
        elif code == Operation.CORRECT:
            assert (label, truth[slot], slot % 3 != 0) == (1, 1, True)
            corrected.add(slot)
    assert corrected == {slot for slot in range(400 - 151) if truth[slot] and slot % 3}


def _small(seed: int) -> SyntheticSpec:
    return SyntheticSpec("sine", 3_000, 10.0, Drift.POSTERIOR, 1_500, 0.0, seed)


@pytest.mark.slow(20)
@pytest.mark.parametrize("method", ["areba_20", "relay"])
def test_the_benchmark_predicts_what_the_application_predicts(method: str) -> None:
    """Otherwise its tables would say nothing about the application."""
    checks = Checks(labelled_examples=500, timeout_examples=200, complaint_examples=300)
    settings = {"areba_20": AREBA_20, "relay": RELAY}[method]
    stream = {"source": "sine", "length": 3_000, "imbalance": 10, "checks": checks.model_dump()}
    plain = settings.model_dump(mode="json")
    run = Run(
        parse({"name": "c", "title": "c", "group": "beyond", "stream": stream, "methods": {method: plain}}, ""), "both"
    )
    data = synthetic(_small(3))
    task = Task(0, settings_of(run, 3), TOPICS, seed_of=same_seed)
    expected, _ = answer(task, method, "sine", data, checks, START_MS)
    found = predictions_of(METHODS[method](data, seed_of_method("sine-10", 3)), data.labels, CheckedAlerts(checks))
    assert (found == expected).all()
    assert set(expected[2_000:].tolist()) == {0, 1}


def test_a_pair_without_checks_is_one_learner() -> None:
    """The learner of checks must not vote before it has learned anything."""
    data, seed = synthetic(_small(1)), bytes(32)
    alone, pair = (
        predictions_of(make(AREBA_20, data, seed), data.labels, Late(50)) for make in (OneLearner, ChecksAndLate)
    )
    assert (alone == pair).all()


def test_the_learner_of_checks_learns_no_other_label() -> None:
    """A pair whose members learn the same would be no rival."""
    data, seed = synthetic(_small(1)), bytes(32)
    checks = Checks(labelled_examples=600, timeout_examples=200)
    alone, pair = (
        predictions_of(make(AREBA_20, data, seed), data.labels, CheckedAlerts(checks))
        for make in (OneLearner, ChecksAndLate)
    )
    assert (alone[:600] == pair[:600]).all(), "until the first time-out, there are only checks"
    assert (alone != pair).any()


@pytest.mark.parametrize("label", [0, 1])
def test_fake_negatives_follow_the_gradient_of_the_weighted_loss(label: int) -> None:
    """A wrong gradient would make the rival of the page weaker than its authors' method."""
    data = synthetic(_small(1))
    method = FakeNegatives(False, data, bytes(range(32)))
    network, example = method._network, data.features[0]
    score = score_of(network, example)
    weight = (1.0 + score) if label else (1.0 - score) * (1.0 + score)

    def loss() -> float:
        p = score_of(network, example)
        return float(-weight * np.log(p if label else 1.0 - p))

    expected = []
    for place in range(len(network.parameters)):
        own = network.parameters[place]
        around = []
        for step in (1e-6, -1e-6):
            network.parameters[place] = own + step
            around.append(loss())
        network.parameters[place] = own
        expected.append((around[0] - around[1]) / 2e-6)
    before = network.parameters.copy()
    take_step(network, example, label, score_of(network, example))
    assert network.gradient == pytest.approx(np.array(expected), abs=1e-6)
    moved = np.abs(network.gradient) > 1e-4
    assert moved.sum() > HIDDEN
    steps = network.parameters[moved] - before[moved]
    assert steps == pytest.approx(-0.01 * np.sign(network.gradient[moved]), rel=1e-2)


def test_kappa_of_a_known_table() -> None:
    """20 found, 5 missed, 10 false alarms, 15 right negatives: 0.4, as in the textbooks."""
    said = np.repeat([True, True, False, False], [20, 10, 5, 15])
    true = np.repeat([True, False, True, False], [20, 10, 5, 15])
    assert kappa(said, true) == pytest.approx(0.4)
    assert kappa(np.zeros(4, np.bool_), np.zeros(4, np.bool_)) == 0.0


def test_a_method_is_scored_by_the_truth_from_the_first_label_on() -> None:
    """Predictions that no label could have improved would count against every method alike."""
    truth = np.array([1, 0] * 50, np.int8)
    predicted = truth.copy()
    predicted[:20] = 1 - truth[:20]
    found = figures_of(predicted, truth, (50,), 20)
    assert found == (1.0, found.gmean_average, 1.0, 1.0, 0.5)
    assert 0.9 < found.gmean_average < 1.0, "after the restart at the drift, a class counts as 0 until it comes"


def test_an_interrupted_run_continues(tmp_path: Path) -> None:
    """A run of an hour that began again after Ctrl-C would never be finished."""
    path = tmp_path / "selective.csv"
    asked = ["run", "--stream", "sine-10", "--policy", "late-1000", "--seeds", "1", "--results", str(path), "--method"]
    main([*asked, "baseline"])
    first = read_results(path)
    assert list(first) == [Repetition("sine-10", "late-1000", "baseline", 0)]
    path.write_text(path.read_text(encoding="utf-8").replace("0.", "0.9", 1), encoding="utf-8")
    main([*asked, "baseline"])
    assert read_results(path) != first, "what is in the file is not run again"
    main([*asked, "baseline", "--again"])
    assert read_results(path) == first
    assert main([*asked, "nothing"]) == 2


QUICK = ("areba_20", "pair_areba_20", "relay")
"""Methods that have the same bits on every machine."""


@pytest.mark.slow(15)
@pytest.mark.parametrize("method", QUICK)
def test_a_repetition_has_the_committed_figures(method: str) -> None:
    """If it fails, run `python -m study.selective run --again --method NAME`, then `report`, and read the page."""
    data = STREAMS["sine-1"](0)
    found = measure(METHODS[method], data, POLICIES["corrected"], seed_of_method("sine-1", 0), resets_of("sine-1"))
    assert found == pytest.approx(read_results(RESULTS)[Repetition("sine-1", "corrected", method, 0)], abs=1e-6)


def test_the_pages_have_what_the_csv_file_says() -> None:
    """If it fails, run `python -m study.selective report` and read the pages again."""
    finished, page = read_results(RESULTS), PAGE.read_text(encoding="utf-8")
    measured = Measured(finished)
    for name, table in tables(measured, Measured(finished, FIELD_STREAMS)):
        assert f"<!-- {name} -->\n{table}\n<!-- end -->" in page
    assert models_table(measured) in MODELS_PAGE.read_text(encoding="utf-8")
    labels = (ROOT / "study" / "results" / "labels.md").read_text(encoding="utf-8")
    assert "\n".join(for_labels_page(read_results(RESULTS))) in labels


def test_the_advice_to_users_has_the_figures_of_the_benchmark() -> None:
    """A user who sets up corrections chooses the method by these sentences."""
    measured = Measured(read_results(RESULTS))
    areba, relay, short, large = (
        f"{measured.mean(policy, method, 'gmean_end'):.2f}"
        for policy, method in (
            ("corrected", "areba_20"),
            ("never", "relay"),
            ("corrected", "relay"),
            ("corrected", "relay_2000"),
        )
    )
    assert areba == f"{measured.mean('never', 'areba_20', 'gmean_end'):.2f}"
    assert float(short) < float(large)
    decisions, tutorial = (
        (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("decisions", "tutorial")
    )
    assert f"was {areba} with AREBA_20 and {relay} with RELAY if nobody" in decisions
    assert f"and {areba} and {large} if complaints" in decisions
    assert f"was {large} with `replay_per_class: 2000` and {areba} with AREBA_20" in tutorial


def test_the_figures_are_those_of_the_application() -> None:
    """The study ran these through the worker's own stages; their bits have not changed since."""
    same = {("checked-corrected", "areba"): "corrected", ("checked-never", "baseline"): "never"}
    found, finished = 0, read_results(RESULTS)
    with (ROOT / "study" / "results" / "repetitions.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            policy = same.get((row["experiment"], row["learner"]))
            if policy is not None and row["repetition"] == "0" and row["budget"] in {"", "20"}:
                method = "areba_20" if row["budget"] else row["learner"]
                own = finished[Repetition("sine-1", policy, method, 0)]
                assert own[:2] == (float(row["gmean"]), float(row["average_gmean"]))
                found += 1
    assert found == len(same)


def test_every_repetition_was_run() -> None:
    """A mean over fewer streams or seeds for one method would compare different things."""
    wanted = sum(map(seeds_of, ALL_STREAMS)) * len(POLICIES) * len(METHODS)
    assert len(read_results(RESULTS)) == wanted


def test_a_readers_own_file_is_shown_beside_the_committed_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pages would lose their tables to a few runs of a reader, who would not see how the own method does."""
    before, mine = PAGE.read_text(encoding="utf-8"), tmp_path / "mine.csv"
    committed = read_results(RESULTS)
    own = committed[Repetition("sine-1", "waits", "oob", 3)]
    write_results({Repetition("sine-1", "waits", "mine", 3): own}, mine)
    assert main(["report", "--results", str(mine)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| `")]
    figures = {method: cells.strip(" |") for _, method, cells in (line.split("`", 2) for line in lines)}
    assert set(METHODS) | {"mine"} == set(figures)
    assert figures["mine"] == figures["oob"] != figures["relay"]
    assert PAGE.read_text(encoding="utf-8") == before


def test_a_file_without_figures_is_an_error(tmp_path: Path) -> None:
    """A reader who mistypes the name would otherwise see the table of an empty file."""
    assert main(["report", "--results", str(tmp_path / "none.csv")]) == 1


def test_a_page_is_not_written_from_a_part(tmp_path: Path) -> None:
    """The page would have means over fewer streams for some methods."""
    part = tmp_path / "part.csv"
    write_results(dict([*read_results(RESULTS).items()][:-300]), part)
    with pytest.raises(ArebaError, match=r"parts of the tables"):
        write_pages(part)


def test_seeds_are_counted_from_one_on(capsys: pytest.CaptureFixture[str]) -> None:
    """`--seeds 0` is what a reader types who wants seed 0; it ran all of them."""
    with pytest.raises(SystemExit) as ended:
        main(["run", "--seeds", "0"])
    assert ended.value.code == 2
    assert "--seeds" in capsys.readouterr().err
