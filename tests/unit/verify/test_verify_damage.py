"""`areba verify` is as good as what it finds: a log is damaged in one way after the other, and each must be named.

The history comes from a real task with real learners, with every fault that an input can have. A finding has to name
the check and the record: topic, partition, offset. The undamaged log has none.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from stream_app.verify import verify
from stream_app.verify.results import Code
from tests.support.damages import outputs, state
from tests.support.damages.log import (
    ANY,
    Found,
    next_score,
    prediction_where,
)
from tests.support.verified_log import CONFIG, TOPICS, Log, at_work, inputs, processed, put


@pytest.fixture(scope="module")
def true_log() -> Log:
    """Return a faultless history with real learners, of which `log` is a copy for each test."""
    log = Log()
    log.records[TOPICS.examples], log.records[TOPICS.labels] = inputs(1)
    return processed(log, 97, 1.0)


DAMAGES = (*outputs.DAMAGES, *state.DAMAGES)


def test_the_undamaged_log_has_no_finding(log: Log) -> None:
    """A false finding would teach operators to ignore the true ones; every metric and the models were compared."""
    report = verify.verify(log, CONFIG, rerun=True)
    assert list(report.findings) == []
    assert list(report.notes) == []
    assert report.models.keys() == {0}
    again = verify.verify(log, CONFIG, rerun=True, models=report.models)
    assert again.ok


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES, ids=[damage.__name__ for damage in DAMAGES])
def test_damage_is_found_and_named(log: Log, damage: Callable[[Log], Found]) -> None:
    """Each damage is found by the check for it, with topic, partition and offset, not just by a wrong total."""
    expected = damage(log)
    findings = verify.verify(log, CONFIG, rerun=True).findings
    for code, topic, offset, text in expected:
        assert any(
            (finding.code, finding.topic) == (code, topic) and offset in (ANY, finding.offset) and text in finding.text
            for finding in findings
        ), ((code, topic, offset, text), findings[:10])


def test_other_final_models_are_named(log: Log) -> None:
    """A worker whose final model differs from a fresh run's would publish other predictions."""
    wrong = verify.verify(log, CONFIG, rerun=True, models={0: "0" * 64})
    (finding,) = wrong.findings
    assert (finding.code, finding.topic) == (Code.WRONG_MODELS, TOPICS.progress)
    assert finding.text.startswith(f"the final models have digest {'0' * 64}, those of a fresh run ")


def test_one_damage_is_not_many(log: Log) -> None:
    """The comparison continues after a damaged record: an operator must see one record, not a thousand that follow."""
    offset, prediction = prediction_where(log, lambda record: not record.champion and record.id == "sea-50")
    put(log, TOPICS.predictions, offset, replace(prediction, score=next_score(prediction.score)))
    assert len(verify.verify(log, CONFIG, rerun=True).findings) == 1


def test_a_group_at_work_is_run_again_as_far_as_it_had_come(log: Log) -> None:
    """Outputs after the last commit that was there at first are no fault."""
    report = verify.verify(at_work(log), CONFIG, rerun=True)
    assert list(report.findings) == []
    assert report.models[0] != verify.verify(log, CONFIG, rerun=True).models[0]
