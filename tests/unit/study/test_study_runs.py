"""Repetitions: run through the task's stages, scored with clean labels, stored so that a stopped run can continue."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_app.errors import ErrorCode, StateError
from stream_app.pipeline.task import Task
from stream_app.producers.events import id_prefix
from stream_app.records import Prediction
from stream_app.serialization import codec
from study.report.scores import curves_of, first_of_both
from study.report.summary import recovery, summarise
from study.report.tables import FINAL_COLUMNS, write_final, write_repetitions
from study.run import runs
from study.run.experiment import Run, Varies, parse
from study.run.parallel import missing
from study.run.runs import Repetition, batches, plan_of, repeat, settings_of
from study.run.store import Store, engine_sources, engine_version, own_code
from study.run.streams import data_of, data_seed, made

LENGTH = 300


def _run(varies: Varies = "both", **stream: Any) -> Run:  # noqa: ANN401  (plain data)
    data = {
        "name": "small",
        "title": "A small one",
        "group": "drift",
        "stream": {"source": "sine", "length": LENGTH, "imbalance": 20, **stream},
        "methods": {"areba_20": {"method": "areba"}, "baseline": None},
        "repetitions": 3,
    }
    return Run(parse(data, "small.yaml"), varies)


def test_a_repetition_has_what_the_task_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Class and score of every learner at every step equal those that the slow decoder reads from the predictions."""
    monkeypatch.setattr(runs, "BATCH_RECORDS", 77)
    run = _run()
    result = repeat(run, 0)
    data = data_of(run, 0)
    plan = plan_of(run, data, data_seed(run, 0))
    task = Task(0, settings_of(run, 0), runs.TOPICS, seed_of=runs.same_seed)
    prefix = id_prefix(plan, plan.streams[0])
    seen = 0
    for examples, labels in batches(plan):
        for value in task.step(examples, labels).topics["predictions"].values:
            record = codec.decode_one(value or b"")
            assert isinstance(record, Prediction)
            row = ["areba_20", "baseline"].index(record.learner)
            number = int(record.id.removeprefix(prefix))
            assert result.classes[row, number] == record.predicted_class
            assert result.scores[row, number] == np.float32(record.score)
            seen += 1
    assert seen == 2 * LENGTH
    assert (result.labels == data.labels).all()


def test_where_batches_are_cut_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The study's batches differ from a worker's, and no figure may depend on that."""
    whole = repeat(_run(label_delay="fixed:10ev", label_share=0.7), 1)
    monkeypatch.setattr(runs, "BATCH_RECORDS", 13)
    cut = repeat(_run(label_delay="fixed:10ev", label_share=0.7), 1)
    assert (whole.scores == cut.scores).all()


def test_a_repetition_varies_data_seeds_or_both() -> None:
    """Data, seeds of learners, or both vary; the first prediction shows the initial weights."""

    def first(varies: Varies, repetition: int) -> tuple[bytes, bytes]:
        run = _run(varies)
        return data_of(run, repetition).features.tobytes(), settings_of(run, repetition).application_id.encode()

    for varies, data_differ, weights_differ in (("both", True, True), ("data", True, False), ("weights", False, True)):
        one, two = first(varies, 0), first(varies, 1)  # type: ignore[arg-type]  # of the three ways
        assert (one[0] != two[0], one[1] != two[1]) == (data_differ, weights_differ)


def test_learners_of_a_repetition_start_from_the_same_weights() -> None:
    """Otherwise a difference between two learners could be the luck of one start, in every repetition the same."""
    both = repeat(_run(), 0)
    assert (both.scores[:, 0] == both.scores[0, 0]).all()
    assert (both.scores[0] != both.scores[1]).any()


def test_learners_get_the_noise_and_the_scorer_does_not() -> None:
    """A perfect learner must score 1.0 with noisy labels; scores against the sent labels would be lower."""
    run = _run(noise=0.3)
    data = data_of(run, 0)
    assert data.clean_labels is not None
    result = repeat(run, 0)
    assert (result.labels == data.clean_labels).all()
    assert (result.labels != data.labels).mean() == pytest.approx(0.3, abs=0.1)
    without = repeat(_run(), 0)
    assert (result.scores[0, 10:] != without.scores[0, 10:]).any()


def test_a_recurring_drift_swaps_the_regions_back_and_forth() -> None:
    """Stretches 1 and 3 come from the plain stream, 2 and 4 from a stream that has drifted."""
    plain = made(_run().experiment.stream, 0)
    swapped = made(_run(drift="posterior", drift_every=75).experiment.stream, 0)
    drifted = made(_run(drift="posterior", drift_step=1).experiment.stream, 0)
    for start in range(0, LENGTH, 75):
        source = drifted if (start // 75) % 2 else plain
        assert (swapped.features[start : start + 75] == source.features[start : start + 75]).all()
    assert (swapped.labels == plain.labels).all()


def test_a_wide_stream_has_its_own_features_first() -> None:
    """The additional features are noise: the class depends on the first two."""
    plain, wide = made(_run().experiment.stream, 0), made(_run(features=50).experiment.stream, 0)
    assert wide.features.shape == (LENGTH, 50)
    assert (wide.features[:, :2] == plain.features).all()
    assert 0.4 < wide.features[:, 2:].mean() < 0.6


def test_the_figures_of_a_class_that_has_not_come() -> None:
    """The figure is 1.0 at the start and 0.0 after a known drift, as in the authors' program; then the faded share."""
    labels = np.array([0, 1, 0, 0, 1], np.int8)
    predicted = np.array([0, 0, 0, 1, 1], np.int8)
    curves = curves_of(predicted, labels, (2,), 0.5)
    assert curves.recall.tolist() == [1.0, 0.0, 0.0, 0.0, 1.0]
    assert curves.specificity.tolist() == [1.0, 1.0, 1.0, 0.5 / 1.5, 0.5 / 1.5]
    assert curves.gmean.tolist() == [1.0, 0.0, 0.0, 0.0, np.sqrt(0.5 / 1.5)]
    assert curves_of(predicted, labels, (), 0.5).recall.tolist() == [1.0, 0.0, 0.0, 0.0, 1.0 / 1.5]


def test_time_to_recover() -> None:
    """Counts examples from the drift until the mean is at the common level; a learner may also never reach it."""
    gmeans = np.array([[0.5, 0.8, 0.0, 0.3, 0.73, 0.9], [0.5, 0.8, 0.0, 0.3, 0.73, 0.9]])
    assert recovery(gmeans, 0.72, 2, 6).steps == 3
    assert recovery(gmeans, 0.72, 2, 4).steps is None
    assert recovery(np.full((2, 6), 0.01), 0.72, 2, 6).steps is None


def test_all_learners_recover_to_the_level_of_the_best(tmp_path: Path) -> None:
    """A learner that knew little before a drift is not the first to be back: the level is that of the best learner."""
    run = _run(drift="posterior", drift_step=150)
    labels = (np.arange(LENGTH) % 2).astype(np.int8)
    good, weak = labels.copy(), labels.copy()
    good[150:170] = 1
    weak[:150] ^= (np.arange(150) % 3 == 0).astype(np.int8)
    weak[150:] ^= (np.arange(150) % 4 == 0).astype(np.int8)
    store = _store(tmp_path)
    store.put(run, 0, Repetition(np.stack([good, weak]), np.stack([good, weak]).astype(np.float32), labels, 1.0))
    summary = summarise(run, store)
    assert summary is not None
    best, other = (learner.recoveries[0] for learner in summary.learners.values())
    assert best.level == other.level == pytest.approx(0.9)
    assert best.steps is not None
    assert other.steps is None


def test_late_labels_are_scored_from_the_first_one(tmp_path: Path) -> None:
    """Examples that arrive before any label can be known say nothing of a learner."""
    run = _run(label_delay="fixed:100ev")
    labels = (np.arange(LENGTH) % 2).astype(np.int8)
    classes = np.stack([labels, labels])
    classes[:, :100] ^= 1
    store = _store(tmp_path)
    store.put(run, 0, Repetition(classes, classes.astype(np.float32), labels, 1.0))
    summary = summarise(run, store)
    assert summary is not None
    learner = summary.learners["baseline"]
    assert learner.averages[0] == 1.0
    assert learner.unfaded[0] == 1.0


def test_both_classes_have_come_with_the_later_first_example() -> None:
    """A score that begins earlier credits a method that always names the class that has come."""
    labels = np.array([1, 0, 0, 0, 1, 0], np.int8)
    assert [first_of_both(labels, start) for start in (0, 1, 5)] == [1, 4, 5]


def test_an_average_gives_no_credit_before_both_classes_have_come(tmp_path: Path) -> None:
    """A method that always says "negative" would otherwise score until the first positive example comes."""
    run, store = _run(), _store(tmp_path)
    labels = np.zeros(LENGTH, np.int8)
    labels[LENGTH // 2 :: 10] = 1
    classes = np.stack([labels, 0 * labels])
    store.put(run, 0, Repetition(classes, classes.astype(np.float32), labels, 1.0))
    summary = summarise(run, store)
    assert summary is not None
    assert [learner.averages[0] for learner in summary.learners.values()] == [1.0, 0.0]


def test_curves_begin_at_the_first_positive_example(tmp_path: Path) -> None:
    """The convention that a class counts as recognised before its first example must not look like skill."""
    run, store = _run(), _store(tmp_path)
    for repetition, first in enumerate((50, 10)):
        labels = (np.arange(LENGTH) >= first).astype(np.int8)
        labels[first + 30 :] = 0
        classes = np.stack([0 * labels, labels])
        store.put(run, repetition, Repetition(classes, np.zeros((2, LENGTH), np.float32), labels, 1.0))
    summary = summarise(run, store)
    assert summary is not None
    means = summary.learners["areba_20"].means[2]
    assert np.isnan(means[:10]).all()
    assert (means[10:] == 0.0).all(), "a repetition without a positive example does not count"


def _store(folder: Path, engine: str = "1") -> Store:
    return Store(folder, engine)


def _result(share: float) -> Repetition:
    classes = (np.random.default_rng(0).random((2, LENGTH)) < share).astype(np.int8)
    return Repetition(classes, classes.astype(np.float32), classes[0], 1.5)


def test_a_stopped_run_continues_where_it_was(tmp_path: Path) -> None:
    """Finished repetitions are stored and not run again; another engine or setting starts them again."""
    run, store = _run(), _store(tmp_path)
    assert [item.repetition for item in missing([run], store, None)] == [0, 1, 2]
    store.put(run, 1, _result(0.5))
    assert [item.repetition for item in missing([run], store, None)] == [0, 2]
    assert [item.repetition for item in missing([run], store, 2)] == [0]
    assert len(missing([run], _store(tmp_path, "2"), None)) == 3
    assert len(missing([_run("data")], store, None)) == 3


@pytest.mark.slow(4)
def test_the_engine_is_all_that_a_repetition_imports(tmp_path: Path) -> None:
    """A result that changed sources would not reproduce must not be shown as their result."""
    names = {path.name for path in engine_sources()}
    assert {"runs.py", "task.py", "records.py", "settings.py", "avro.py", "compiler.py", "synthetic.py"} <= names
    assert not names & {"broker.py", "transaction.py", "worker.py", "store.py"}, (
        "what decides nothing costs no repetition"
    )
    start = tmp_path / "study" / "run" / "runs.py"
    files = {
        "study/run/runs.py": "from stream_app.one import ONE",
        "stream_app/one.py": "def late():\n    import stream_app.deep.two",
        "stream_app/deep/two.py": "TWO = 2",
        "stream_app/other.py": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text)
    versions = [engine_version(start)]
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\nMORE = 1")
        versions.append(engine_version(start))
    assert len(set(versions)) == len(files), "each counts but the last"
    assert versions[-1] == versions[-2]


def test_another_version_of_an_own_learner_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who changes a learner and runs the study again must not see the results of the old one."""
    monkeypatch.syspath_prepend(str(tmp_path))
    source = tmp_path / "own_of_the_study.py"
    run = _run()
    method = run.experiment.methods["baseline"].model_copy(update={"method": "own_of_the_study:Mine"})
    run = Run(run.experiment.model_copy(update={"methods": {"mine": method}}), "both")
    keys = set()
    for text in ("RATE = 1", "RATE = 1  # the same", "RATE = 2"):
        source.write_text(text)
        keys.add(own_code(run))
    assert len(keys) == 2
    assert own_code(_run()) == ""


def test_stored_predictions_are_read_bit_for_bit(tmp_path: Path) -> None:
    """Bits are packed: none may be lost, and the length need not be a multiple of 8."""
    run, store, result = _run(), _store(tmp_path), _result(0.3)
    store.put(run, 0, result)
    back = store.get(run, 0)
    assert (back.classes == result.classes).all()
    assert (back.labels == result.labels).all()
    assert back.seconds == result.seconds


def test_a_half_written_file_is_not_a_repetition(tmp_path: Path) -> None:
    """A process that was killed while it wrote leaves a `.partial` file, which does not count."""
    run, store = _run(), _store(tmp_path)
    store.put(run, 0, _result(0.3))
    (path,) = tmp_path.rglob("*.npz")
    path.rename(path.with_name("0.77.partial"))
    assert store.finished(run) == []


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """A broken disk must cause neither a figure nor a traceback."""
    run, store = _run(), _store(tmp_path)
    store.put(run, 0, _result(0.3))
    (path,) = tmp_path.rglob("*.npz")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        store.get(run, 0)


def test_the_published_table(tmp_path: Path) -> None:
    """Its columns are a contract: readers plot from it without our code."""
    run, store = _run(drift="posterior", noise=0.1), _store(tmp_path)
    for number in range(2):
        store.put(run, number, replace(_result(0.4 + 0.1 * number)))
    summary = summarise(run, store)
    assert summary is not None
    write_final([summary], tmp_path / "final.csv")
    rows = list(csv.DictReader((tmp_path / "final.csv").read_text().splitlines()))
    expected = "experiment,stream,imbalance,drift,noise,learner,budget,step,metric,mean,standard_deviation,repetitions"
    assert ",".join(FINAL_COLUMNS) == expected
    assert (tmp_path / "final.csv").read_text().partition("\n")[0] == expected
    assert len(rows) == 2 * 3  # two learners, three metrics, only the last step
    first = rows[0]
    assert (first["experiment"], first["stream"], first["imbalance"]) == ("small", "sine", "20")
    assert (first["drift"], first["noise"], first["step"], first["repetitions"]) == ("posterior", "0.1", "300", "2")
    assert [(row["learner"], row["budget"]) for row in rows[::3]] == [("areba", "20"), ("baseline", "")]
    gmean = summary.learners["areba_20"].figures[300][2]
    assert float(rows[2]["mean"]) == pytest.approx(gmean.mean(), abs=1e-6)
    assert float(rows[2]["standard_deviation"]) == pytest.approx(gmean.std(ddof=1), abs=1e-6)
    write_repetitions([summary], tmp_path / "repetitions.csv")
    assert len((tmp_path / "repetitions.csv").read_text().splitlines()) == 1 + 2 * 2
