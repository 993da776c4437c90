"""`areba verify` counts corrections and metrics again."""

from dataclasses import fields, replace

import pytest

from stream_app.config import Config, MetricSettings
from stream_app.progress_records import Act
from stream_app.records import Label, Metric, Outcome, Prediction
from stream_app.serialization import codec
from stream_app.verify import verify
from stream_app.verify.metrics.changes import change_fault
from stream_app.verify.metrics.recount import Recount
from stream_app.verify.metrics.restarts import ActsBefore, FigureRestarts
from stream_app.verify.output_checks import Output
from stream_app.verify.results import Code
from tests.support.formats.metrics import window, with_main_window
from tests.support.verified_log import (
    CONFIG,
    CORRECTING,
    TOPICS,
    Log,
    Stored,
    findings,
    history,
    places,
    put,
    text_of,
    where,
)

START = ActsBefore(0, 0, 0)
"""Before any act."""

BOTH_CLASSES = {
    "recall": 0.0, "specificity": 1.0, "gmean": 0.0, "prevalence": 0.5, "f1": 0.0, "kappa": 0.0, "roc_auc": 0.5,
    "average_precision": 0.5,
}  # fmt: skip
"""The figures of a label of each class, both predicted as class 0 with one score."""


@pytest.fixture(scope="module")
def corrected() -> Log:
    """Return a history with corrections, which tests must not change."""
    return history(config=CORRECTING)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 7, 97, 5_000])
def test_corrections_have_no_finding(batch: int) -> None:
    """The waiting labels and the joined examples follow from the revisions, for any cut of batches."""
    log = history(3, batch, config=CORRECTING)
    report = verify.verify(log, CORRECTING)
    assert report.findings == ()
    assert not [note for note in report.notes if "not counted again" in note], "the metrics were"
    assert sum(figures.corrections for figures in report.figures.values()) > 20
    kinds = [outcome.outcome for outcome in map(_decoded, log.records[TOPICS.outcomes]) if isinstance(outcome, Outcome)]
    assert kinds.count("correction") == sum(figures.corrections for figures in report.figures.values())


def _decoded(stored: Stored) -> object:
    return codec.decode_one(stored.value or b"")


@pytest.mark.parametrize(
    ("corrections", "negatives", "positive", "right"),
    [
        ({2: 0}, 1.99, 0.0, True),
        ({2: 0}, 1.0, 1.0, True),
        ({2: 0}, 2.0, 0.0, False),
        ({2: 0}, 1.99, 1.0, False),
        ({}, 1.0, 1.0, True),
        ({}, 1.99, 0.0, False),
    ],
)
def test_metrics_before_or_after_a_correction(
    corrections: dict[int, int], negatives: float, positive: float, right: bool
) -> None:
    """A mark publishes metrics without a label, and nothing says which corrections came before it.

    A correction of a label that waits, under the id of an example that the join has forgotten, changes no metric.
    """
    outcomes = [
        Outcome("s", "a", "joined", 1, "one", 0.25, 0.25, 0, 0, 0, 0, 0),
        Outcome("s", "b", "joined", 0, "one", 0.25, 0.25, 0, 0, 1, 1, 0),
        Outcome("s", "a", "correction", 0, None, None, None, None, None, None, 2, 0),
    ]
    predictions = [Prediction("s", name, "one", True, 0.25, 0.25, 0, 0, 0) for name in "ab"]
    asked = [Output(offset, b"s", prediction) for offset, prediction in enumerate(predictions)]
    settled = [Output(offset, b"s", outcome) for offset, outcome in enumerate(outcomes)]
    metric = replace(
        _changed(0),
        stream="s",
        learner="one",
        labelled=2,
        calibration_error=0.25,
        windows=(
            replace(
                window(0.99, positive_total=positive, negative_correct=negatives, negative_total=negatives),
                **(BOTH_CLASSES if positive else {}),
            ),
        ),
    )
    recount = Recount(MetricSettings(prevalence_fading_factor=1.0), asked, settled, corrections, FigureRestarts())
    assert (recount.fault(metric, START) is None) == right
    assert recount.unknown == 0


def codes(log: Log) -> set[Code]:
    """Return the codes of all findings."""
    return {finding.code for finding in findings(log)}


def _configured(config: Config) -> Stored:
    """Return the progress record of these settings."""
    return Stored(0, None, codec.encode(Act(0, "configuration", "0", config.task_settings().to_json())))


def test_corrections_that_are_none(corrected: Log) -> None:
    """A lower revision must not take back a class, and without the policy nothing may."""
    log = Log({name: list(records) for name, records in corrected.records.items()})
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.outcome == "correction")
    configured = log.records[TOPICS.progress][0]
    log.records[TOPICS.progress][0] = _configured(CONFIG)
    assert (Code.WRONG_OUTCOME, TOPICS.outcomes, offset) in places(findings(log))
    log.records[TOPICS.progress][0] = configured
    refusing = history()
    refusing.records[TOPICS.progress][0] = _configured(CORRECTING)
    assert Code.UNEXPECTED_DEAD_LETTER in codes(refusing)
    offset, outcome = where(log, TOPICS.outcomes, lambda record: record.outcome == "correction")
    assert isinstance(outcome, Outcome)
    put(log, TOPICS.outcomes, offset, replace(outcome, label=1 - (outcome.label or 0)))
    assert (Code.WRONG_OUTCOME, TOPICS.outcomes, offset) in places(findings(log, CORRECTING))
    assert outcome.label_offset is not None
    label = _decoded(log.records[TOPICS.labels][outcome.label_offset])
    assert isinstance(label, Label)
    put(log, TOPICS.outcomes, offset, outcome)
    stored = log.records[TOPICS.labels][outcome.label_offset]
    low = replace(stored, value=codec.encode(replace(label, revision=0)))
    log.records[TOPICS.labels][outcome.label_offset] = low
    assert (Code.WRONG_OUTCOME, TOPICS.outcomes, offset) in places(findings(log, CORRECTING))


def test_metrics_that_count_too_much(log: Log) -> None:
    """A metric must not count labels that never came."""
    last = len(log.records[TOPICS.metrics]) - 1
    metric = codec.decode_one(log.records[TOPICS.metrics][last].value or b"")
    assert isinstance(metric, Metric)
    put(log, TOPICS.metrics, last, replace(metric, labelled=10_000))
    text = text_of(findings(log), Code.WRONG_METRIC)
    assert f"{TOPICS.metrics}[0] offset {last}: labelled of {metric.stream}/{metric.learner} is 10,000" in text


def _changed(at: int, **figures: float | None) -> Metric:
    """Return the metric after `at` labels of a learner that degraded at label 40 and was flagged at label 60."""
    change = {"change_flagged": 60, "change_began": 40, "gmean_before": 0.5, "labels_to_recover": 25, "changes": 1}
    windows = {"windows": (window(0.99),)}
    names = [each.name for each in fields(Metric) if each.name not in {*change, *windows}]
    values = dict.fromkeys(names, 0) | {"stream": "s", "learner": "l", "labelled": at} | windows | change | figures
    return Metric(**values)  # type: ignore[arg-type]


NO_CHANGE: dict[str, float | None] = {
    **dict.fromkeys(("change_flagged", "change_began", "gmean_before", "labels_to_recover")),
    "changes": 0,
}


@pytest.mark.parametrize(
    ("metric", "before", "fault"),
    [
        (_changed(100), None, None),
        (_changed(100), _changed(80, labels_to_recover=None), None),
        (_changed(100), _changed(50, **NO_CHANGE), None),
        (_changed(100, changes=2, change_flagged=95, change_began=90, labels_to_recover=5), _changed(80), None),
        (_changed(100, **NO_CHANGE), None, None),
        (_changed(100, changes=0), None, "is described"),
        (_changed(50), None, "flagged at 60, begun at 40, of 50 labels"),
        (_changed(100, change_began=61), None, "begun at 61"),
        (_changed(100, change_flagged=None), None, "flagged at None"),
        (_changed(100, labels_to_recover=61), None, "recovered in 61 of the 60"),
        (_changed(100, **NO_CHANGE), _changed(80), "0 after 1"),
        (_changed(100, gmean_before=0.6), _changed(80), "is another"),
        (_changed(100, changes=2), _changed(80), "a new one was flagged at 60"),
        (_changed(100), _changed(70, **NO_CHANGE), "not yet there after 70"),
    ],
)
def test_changes_that_cannot_be(metric: Metric, before: Metric | None, fault: str | None) -> None:
    """The figures on changes must be consistent with each other, since people decide by them."""
    found = change_fault(metric, before)
    assert (found is None) if fault is None else (found is not None and fault in found)


def test_a_change_out_of_nowhere(log: Log) -> None:
    """`verify` checks the figures on changes in every metric of the history."""
    offset, metric = where(log, TOPICS.metrics, lambda record: record.changes == 0)
    assert isinstance(metric, Metric)
    put(log, TOPICS.metrics, offset, replace(metric, change_flagged=3))
    assert (Code.WRONG_CHANGE, TOPICS.metrics, offset) in places(findings(log))


def test_a_learner_that_came_back() -> None:
    """A mark publishes the metrics of a learner that was removed and added again before the next label."""
    predictions = [Prediction("s", name, "one", True, 0.25, 0.25, 0, 0, 0) for name in "ab"]
    outcomes = [
        Outcome("s", name, "joined", label, "one", 0.25, 0.25, 0, 0, label, label, 0) for label, name in enumerate("ab")
    ]
    asked = [Output(offset, b"s", prediction) for offset, prediction in enumerate(predictions)]
    settled = [Output(offset, b"s", outcome) for offset, outcome in enumerate(outcomes)]
    again = replace(_changed(0), stream="s", learner="one", labelled=2, updates=0)
    first = replace(
        again,
        updates=2,
        calibration_error=0.25,
        windows=(window(0.99, **BOTH_CLASSES, positive_total=1.0, negative_correct=1.0, negative_total=1.0),),
    )
    recount = Recount(MetricSettings(prevalence_fading_factor=1.0), asked, settled, {}, FigureRestarts())
    assert recount.fault(with_main_window(first, negative_correct=0.5), START) is not None
    assert [recount.fault(first, START), recount.fault(again, START._replace(begun=1))] == [None, None]
    assert recount.unknown == 1
    assert (
        Recount(MetricSettings(prevalence_fading_factor=1.0), asked, settled, {}, FigureRestarts()).fault(again, START)
        is not None
    )
    fault = Recount(MetricSettings(fading_factors=(0.99, 1.0)), asked, settled, {}, FigureRestarts()).fault(
        first, START
    )
    assert fault == "the fading factors are [0.99], those of the configuration [0.99, 1.0]"
