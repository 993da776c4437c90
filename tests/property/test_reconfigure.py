"""A changed configuration between two batches: what continues, what restarts, and that a restore does the same."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from stream_app.config import (
    Corrections,
    LearnerSettings,
    MetricSettings,
    StreamSettings,
    TaskSettings,
    changes,
)
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.pipeline.task import Task
from stream_app.records import Example, Label, Metric, Outcome, Prediction, Side
from stream_app.serialization import codec
from stream_app.snapshot import segments
from stream_app.verify.reference_merge import merge
from stream_app.verify.reference_state import Record
from tests.oracle_checks import rows_of
from tests.support.formats.metrics import sums_in
from tests.support.rows import columns
from tests.support.snapshots import Changelog
from tests.support.tasks import (
    FACTORS,
    FEW,
    LEARNERS,
    PARTITION,
    SMALL,
    TOPICS,
    Run,
    cut_at,
    fixed_input,
    settings_of_task,
)

ONE, TWO = LEARNERS["one"], LEARNERS["two"]
NEW = LearnerSettings(method="sliding", window=3, hidden=(2,), scaler="standard")

VARIANTS: Mapping[str, Mapping[str, LearnerSettings]] = {
    "same": {"one": ONE, "two": TWO},
    "new first": {"new": NEW, "one": ONE, "two": TWO},
    "new last": {"one": ONE, "two": TWO, "new": NEW},
    "another order": {"two": TWO, "one": ONE},
    "another budget": {"one": ONE.model_copy(update={"budget": 6}), "two": TWO},
    "another net": {"one": ONE.model_copy(update={"hidden": (3,)}), "two": TWO},
    "no scaler": {"one": ONE.model_copy(update={"scaler": "none"}), "two": TWO},
    "a scaler": {"one": ONE, "two": TWO.model_copy(update={"scaler": "standard"})},
    "another rate": {"one": ONE, "two": TWO.model_copy(update={"learning_rate": 0.5})},
    "another method": {"one": ONE, "two": NEW},
}


def with_learners(chosen: TaskSettings, learners: Mapping[str, LearnerSettings], **more: object) -> TaskSettings:
    """Return the same settings with other learners for all streams."""
    streams = {
        name: StreamSettings(features=stream.features, champion=stream.champion, learners=learners)
        for name, stream in chosen.streams.items()
    }
    default = next(iter(streams.values()))
    return chosen.model_copy(update={"streams": streams, "default_stream": default, **more})


def run_changed(
    first: TaskSettings,
    second: TaskSettings,
    parts: tuple[Sequence[Record], Sequence[Record]],
    cuts: tuple[Sequence[int], Sequence[int]] = ((), ()),
    relay: Callable[[Task], Task] = lambda task: task,
) -> tuple[Run, Task]:
    """Run a task through `parts[0]` under the first settings, then through `parts[1]` under the second."""
    task = Task(PARTITION, first, TOPICS)
    result = Run({topic: [] for topic in OUTPUT_TOPICS}, ([], []), {})
    for number, part in enumerate(parts):
        if number == 1:
            assert not changes(first, second, task.running()).refused
            task.apply_settings(second)
            task = relay(task)
        for examples, labels in cut_at(part, cuts[number]):
            outputs = task.step(columns(examples), columns(labels))
            for topic in OUTPUT_TOPICS:
                result.rows[topic] += rows_of(outputs.topics[topic])
            task = relay(task)
    result.models = {name: array.tobytes() for name, array in task.arrays().items() if not name.endswith("/seen")}
    return result, task


def records_of(run: Run, topic: str) -> list[Any]:
    """Return the records of a topic."""
    return [codec.decode_one(row.value or b"") for row in run.rows[topic]]


def of_learner(run: Run, learner: str, topics: Sequence[str] = ("predictions", "metrics")) -> list[Any]:
    """Return everything that is published about a learner."""
    return [record for topic in topics for record in records_of(run, topic) if record.learner == learner]


def models_of(run: Run, learner: str) -> dict[str, bytes]:
    """Return the state of a learner on all streams."""
    return {name: array for name, array in run.models.items() if name.split("/")[1] == learner}


def halves(examples: Sequence[Record], labels: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """Return the first half of the merged sequence, and the rest."""
    sequence = list(merge(examples, labels))
    at = len(sequence) // 2
    return sequence[:at], sequence[at:]


def prompt(count: int, start: int = 0) -> list[Record]:
    """Return examples of stream `a`, each directly followed by its label."""
    records = []
    for number in range(start, start + count):
        example = Example("a", str(number), (number % 7 / 7, number % 5 - 2.0))
        label = Label("a", str(number), int(number % 3 == 0))
        for side, meaning in ((Side.EXAMPLES, example), (Side.LABELS, label)):
            records.append(Record(side, number, 10 * number + 1 + side, meaning, b"a", codec.encode(meaning)))
    return records


@pytest.mark.parametrize("name", VARIANTS)
def test_learners_that_did_not_change_continue(name: str) -> None:
    """A challenger that is added or tuned must not affect the champion: its scores, its figures, its model."""
    before, examples, labels = fixed_input(400)
    after = with_learners(before, VARIANTS[name])
    parts = halves(examples, labels)
    plain, _ = run_changed(before, before, parts)
    found, _ = run_changed(before, after, parts)
    same = [learner for learner in LEARNERS if VARIANTS[name].get(learner) == LEARNERS[learner]]
    assert same
    for learner in same:
        assert of_learner(found, learner) == of_learner(plain, learner)
        assert models_of(found, learner) == models_of(plain, learner)
    assert of_learner(found, "one", ["outcomes"]) == of_learner(plain, "one", ["outcomes"]) or "one" not in same
    assert found.rows["dead-letters"] == plain.rows["dead-letters"]


@pytest.mark.parametrize(
    "name", ["new last", "another budget", "another net", "no scaler", "a scaler", "another method"]
)
def test_a_learner_that_restarts_is_as_if_new(name: str) -> None:
    """If nothing is pending at the change, the learner equals a new application's learner with the later records."""
    before, _, _ = fixed_input(1)
    after = with_learners(before, VARIANTS[name])
    later = prompt(60, start=100)
    found, _ = run_changed(before, after, (prompt(60), later))
    fresh, _ = run_changed(after, after, ([], later))
    changed = [learner for learner in VARIANTS[name] if VARIANTS[name][learner] != LEARNERS.get(learner)]
    assert changed
    for learner in changed:
        assert models_of(found, learner) == models_of(fresh, learner)


@pytest.mark.parametrize("name", ["new first", "a scaler"])
def test_a_new_scaler_sees_what_waits(name: str) -> None:
    """A new learner learns what it would have seen if it had existed when the pending examples came."""
    before, _, _ = fixed_input(1, join=SMALL.model_copy(update={"ttl_ms": 10_000, "max_pending_per_stream": 99}))
    after = with_learners(before, VARIANTS[name])
    records = prompt(20)
    examples = [record for record in records if record.side is Side.EXAMPLES]
    labels = [record for record in records if record.side is Side.LABELS]
    learner = "new" if name == "new first" else "two"
    found, fresh = run_changed(before, after, (examples, labels))[0], run_changed(after, after, (examples, labels))[0]
    assert models_of(found, learner) == models_of(fresh, learner)


def test_another_rate_holds_from_then_on() -> None:
    """The learner keeps its model; only the later steps are larger."""
    before, examples, labels = fixed_input(400)
    after = with_learners(before, VARIANTS["another rate"])
    parts = halves(examples, labels)
    none, _ = run_changed(before, after, (parts[0], []))
    at_change, _ = run_changed(before, before, (parts[0], []))
    assert none.models == at_change.models
    plain, found = run_changed(before, before, parts)[0], run_changed(before, after, parts)[0]
    assert models_of(found, "two") != models_of(plain, "two")


@pytest.mark.parametrize("corrections", ["first", "correct"])
def test_a_new_learner_counts_what_it_predicted(corrections: Corrections) -> None:
    """Its metrics count its own predictions only, without examples that were pending or corrected from before."""
    before, examples, labels = fixed_input(600, join=SMALL.model_copy(update={"corrections": corrections}), delay_ms=30)
    after = with_learners(before, VARIANTS["new last"])
    found, _ = run_changed(before, after, halves(examples, labels))
    predicted = {(p.stream, p.id) for p in records_of(found, "predictions") if p.learner == "new"}
    joined = [o for o in records_of(found, "outcomes") if isinstance(o, Outcome) and o.outcome == "joined"]
    assert predicted
    last = {m.stream: m for m in records_of(found, "metrics") if isinstance(m, Metric) and m.learner == "new"}
    ones = {m.stream: m for m in records_of(found, "metrics") if isinstance(m, Metric) and m.learner == "one"}
    for stream, metric in last.items():
        labelled = [o for o in joined if o.stream == stream][: metric.labelled]
        own = [o for o in labelled if (stream, o.id) in predicted]
        assert 0 < len(own) < len(labelled)
        assert metric.labelled == ones[stream].labelled
        assert metric.updates > 0
    if corrections == "first":
        for stream, metric in last.items():
            answers = {
                p.id: p.predicted_class
                for p in records_of(found, "predictions")
                if p.learner == "new" and p.stream == stream
            }
            for window, fading in zip(metric.windows, FACTORS, strict=True):
                sums = [0.0, 0.0, 0.0, 0.0]
                for outcome in [o for o in joined if o.stream == stream][: metric.labelled]:
                    if outcome.id in answers:
                        column = 0 if outcome.label == 1 else 2
                        sums[column] = fading * sums[column] + (answers[outcome.id] == outcome.label)
                        sums[column + 1] = fading * sums[column + 1] + 1.0
                assert sums_in(window) == sums


def test_a_correction_of_what_a_new_learner_had_not_predicted() -> None:
    """A correction changes the figures of learners that had predicted the example, but not a new learner's."""
    stream = StreamSettings(features=2, champion="one", learners=LEARNERS)
    before = settings_of_task(
        join=SMALL.model_copy(update={"corrections": "correct", "ttl_ms": 10_000}),
        metrics=MetricSettings(every_labels=1, fading_factors=(1.0,)),
        predictions="all",
        streams={"a": stream},
        default_stream=stream,
    )
    after = with_learners(before, VARIANTS["new first"])

    def correction(id_: int, time_ms: int) -> Record:
        meaning = Label("a", str(id_), 1 - int(id_ % 3 == 0), 5)
        return Record(Side.LABELS, 1_000 + time_ms, time_ms, meaning, b"a", codec.encode(meaning))

    later = [*prompt(4, start=10), correction(3, 500), correction(10, 501), *prompt(1, start=60)]
    found, _ = run_changed(before, after, (prompt(6), later))
    metrics = [m for m in records_of(found, "metrics") if isinstance(m, Metric)]
    totals = {m.learner: (m.main_window.positive_total, m.main_window.negative_total) for m in metrics}
    # Of 0 to 5, two are positive (0, 3); of 10 to 13, one (12); 60 is. Id 3 becomes negative, id 10 positive.
    assert totals == {"one": (4.0, 7.0), "two": (4.0, 7.0), "new": (3.0, 2.0)}


def test_a_champion_that_was_promoted_stays_it_in_another_order() -> None:
    """Predictions that wait for labels still belong to the learner that made them."""
    before, examples, labels = fixed_input(400)
    after = with_learners(before, VARIANTS["another order"])
    parts = halves(examples, labels)
    plain, found = run_changed(before, before, parts)[0], run_changed(before, after, parts)[0]
    assert found.rows["outcomes"] == plain.rows["outcomes"]
    assert [p.learner for p in records_of(found, "predictions")[-2:]] == ["two", "one"]
    champions = [(p.id, p.learner) for p in records_of(found, "predictions") if p.champion]
    assert champions == [(p.id, p.learner) for p in records_of(plain, "predictions") if p.champion]


def test_metrics_and_predictions_start_and_stop_with_a_setting() -> None:
    """Metrics and the predictions of all learners start and stop with a setting."""
    quiet, examples, labels = fixed_input(400)
    loud = quiet.model_copy(update={"metrics": quiet.metrics.model_copy(update={"every_labels": 1})})
    quiet = quiet.model_copy(update={"predictions": "champion"})
    parts = halves(examples, labels)
    found, plain = run_changed(quiet, loud, parts)[0], run_changed(quiet, quiet, parts)[0]
    assert found.rows["outcomes"] == plain.rows["outcomes"]
    assert found.models == plain.models
    assert len(found.rows["metrics"]) > 2 * len(plain.rows["metrics"])
    champions = [p for p in records_of(found, "predictions") if isinstance(p, Prediction) and p.champion]
    assert champions == records_of(plain, "predictions")
    assert len(records_of(found, "predictions")) > len(champions)


@pytest.mark.slow(10)
@settings(FEW, max_examples=60)
@given(
    st.sampled_from(list(VARIANTS)),
    st.sampled_from(list(VARIANTS)),
    st.sampled_from(["first", "correct"]),
    st.sampled_from(["hddm", "ddm"]),
    st.integers(0, 240),
    st.data(),
)
def test_a_restore_repeats_a_change_of_the_configuration(
    one: str, two: str, corrections: Corrections, detector: str, at: int, data: st.DataObject
) -> None:
    """After any change, other batches, and snapshots after each of them, give the same bits."""
    base, examples, labels = fixed_input(120, join=SMALL.model_copy(update={"corrections": corrections}))
    before = with_learners(base, {**VARIANTS[one], "stays": TWO})
    metrics = base.metrics.model_copy(update={"change_detector": detector})
    after = with_learners(base, {**VARIANTS[two], "stays": TWO}, metrics=metrics)
    sequence = list(merge(examples, labels))
    parts = (sequence[:at], sequence[at:])
    cuts = [data.draw(st.lists(st.integers(0, len(part)), max_size=4)) for part in parts]
    changelog = Changelog(before)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "CLOSED_ROWS", 3)
        cut, _ = run_changed(before, after, parts, (cuts[0], cuts[1]), changelog.relay)
    assert cut == run_changed(before, after, parts)[0]
