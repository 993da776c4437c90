"""The figures that `areba watch` shows follow from the records alone, in bounded memory."""

from dataclasses import replace

import pytest

from ops.demo.curves import CurveModel
from stream_app.monitor.figures import StreamFigures
from stream_app.monitor.model import MAX_REASONS, WINDOW_S, LiveModel
from stream_app.progress_records import Commit
from stream_app.records import Outcome, Prediction
from stream_app.snapshot.stops import stopped_text
from tests.support.formats.metrics import metric

START_S = 100.0


def _joined(stream: str = "fraud", kind: str = "joined") -> Outcome:
    return Outcome(stream, "1", kind, 1, "areba", 0.5, 0.1, 0, 10, 0, 0, 1)


def _prediction(stream: str, event_time_ms: int) -> Prediction:
    return Prediction(stream, "1", "areba", True, 0.5, 0.1, 1, 0, event_time_ms)


def _commit(examples_end: int, **stops: str) -> Commit:
    return Commit(0, 0, examples_end, 0, 0, bytes(32), 1, stopped_streams=len(stops), stopped=stopped_text(stops))


def _stream(model: LiveModel, name: str = "fraud") -> StreamFigures:
    (found,) = model.figures().only([name]).streams
    return found


def test_the_lag_is_that_of_the_newest_example() -> None:
    """A lag of zero must mean that all examples are processed."""
    model = LiveModel(["fraud"])
    assert _stream(model).lag_ms is None, "nothing is known"
    model.add_example("fraud", 2, 7, 50_000)
    assert _stream(model).lag_ms is None, "nothing was processed yet"
    model.add_prediction(_prediction("fraud", 20_000), 2)
    assert _stream(model).lag_ms == 30_000
    model.add_prediction(_prediction("fraud", 45_000), 2)
    assert _stream(model).lag_ms == 5_000
    model.add_progress(2, _commit(7))
    assert _stream(model).lag_ms == 5_000, "the example at offset 7 is not in the range before 7"
    model.add_progress(1, _commit(8))
    assert _stream(model).lag_ms == 5_000, "another task"
    model.add_progress(2, _commit(8))
    assert _stream(model).lag_ms == 0
    model.add_example("fraud", 2, 8, 44_000)
    assert _stream(model).lag_ms == 0, "an example may be older than the example before it"


@pytest.mark.parametrize("claimed_ms", [-1, 0, 60, 10**15])
def test_a_wrong_time_does_not_hide_the_lag(claimed_ms: int) -> None:
    """One example from the year 33658 would have shown a lag of 0 for ever, as would its dead letter."""
    model = LiveModel(["fraud"])
    model.add_example("fraud", 0, 0, 10_000)
    model.add_prediction(_prediction("fraud", 10_000), 0)
    model.add_example("fraud", 0, 1, claimed_ms)
    model.add_dead_letter("fraud", "bad-time", 0)
    model.add_progress(0, _commit(2))
    model.add_example("fraud", 0, 2, 50_000)
    assert _stream(model).lag_ms == 40_000


def test_the_rate_counts_what_was_joined_while_watching() -> None:
    """A rate that counted old records, repeats or long pauses would show a speed that the application does not have."""
    model = LiveModel()
    model.add_outcome(_joined(), 0)
    for tenth in range(0, 41, 2):
        model.tick(START_S + tenth / 10)
        for _ in range(2 if tenth else 0):
            model.add_outcome(_joined(), 0)
            model.add_outcome(_joined(kind="duplicate"), 0)
        if tenth == 2:
            assert _stream(model).labelled_per_s is None, "too short"
    assert _stream(model).labelled_per_s == pytest.approx(10, rel=0.06)
    model.tick(START_S + 8)
    assert _stream(model).labelled_per_s == pytest.approx(5, rel=0.06)
    model.tick(START_S + 3 * WINDOW_S)
    model.tick(START_S + 3 * WINDOW_S + 1)
    assert _stream(model).labelled_per_s == 0
    model.tick(START_S + 9 * WINDOW_S)
    model.add_outcome(_joined(), 0)
    assert _stream(model).labelled_per_s == pytest.approx(1 / (6 * WINDOW_S - 1)), "updates that are rare"


def test_the_rate_of_a_steady_stream_is_exact() -> None:
    """With updates every two seconds, a window that is cut between them would count up to a fifth too many."""
    model = LiveModel()
    for update in range(20):
        model.tick(START_S + 2 * update)
        for _ in range(1_000):
            model.add_outcome(_joined(), 0)
        assert _stream(model).labelled_per_s == (500 if update else None)


def test_a_learner_that_is_no_longer_configured_disappears() -> None:
    """A removed learner would stay in the table with its last G-mean, as if it were still predicting."""
    model = LiveModel()
    for learner in ("old", "baseline", "areba"):
        model.add_metric(metric(learner=learner), 0)
    names = [one.learner for one in _stream(model).learners]
    assert names == ["areba", "baseline", "old"], "champion first, wherever the metrics that were read begin"
    for labelled in range(1_000, 1_004):
        for learner in ("areba", "baseline"):
            model.add_metric(metric(labelled, learner=learner), 0)
    assert [one.learner for one in _stream(model).learners] == ["areba", "baseline"]
    assert _stream(model).learners[0].labelled == 1_003


def test_dead_letters_make_no_streams() -> None:
    """Producers may write any key: a stream for each would push the real ones out of the table."""
    model = LiveModel(["fraud"])
    model.add_dead_letter("fraud", "late-label", 0)
    for number in range(2 * MAX_REASONS):
        model.add_dead_letter(f"x{number}", f"reason-{number}", 0)
        model.add_example(f"x{number}", 0, number, 5)
    figures = model.figures()
    assert [stream.stream for stream in figures.streams] == ["fraud"]
    assert (figures.streams[0].dead_letters, figures.streams[0].dead_letters_are_all) == (1, True)
    assert len(figures.unassigned) == MAX_REASONS
    model.note_older_dead_letters()
    assert not _stream(model).dead_letters_are_all


def test_streams_are_bounded_and_those_left_out_are_counted() -> None:
    """A view that runs for weeks must not fill the memory, and must not hide that it shows a part only."""
    model = LiveModel(max_streams=2)
    for name in ("a", "b", "c"):
        model.add_prediction(_prediction(name, 1), 0)
        model.add_metric(metric(stream=name), 0)
    figures = model.figures()
    assert ([stream.stream for stream in figures.streams], figures.left_out) == (["a", "b"], 2)
    assert len(figures.notes()) == 1


def test_a_stopped_stream_is_a_problem_until_it_is_resumed() -> None:
    """A stopped stream without a reason would look like a stream without examples."""
    model = LiveModel()
    model.add_progress(3, _commit(1, pumps="too many"))
    model.add_progress(2, _commit(1))
    assert [line.partition("is stopped")[0] for line in model.figures().problems] == ["task 3: stream 'pumps' "]
    assert model.is_stopped("pumps")
    assert not model.is_stopped("fans")
    model.add_progress(3, _commit(2))
    assert model.figures(["first"]).problems == ("first",)


def test_pending_is_that_of_the_newest_metric() -> None:
    """A learner's old metric would show examples as pending that have long been closed."""
    model = LiveModel()
    model.add_metric(replace(metric(learner="baseline"), pending=9, event_time_ms=5), 0)
    model.add_metric(replace(metric(), pending=4, event_time_ms=6), 0)
    assert _stream(model).pending == 4
    assert _stream(model).rows()[0]["pending"] == 4


def test_curves_are_bounded() -> None:
    """The figure of the demo needs the complete course of a stream, however long it is."""
    model = CurveModel((), 100)
    for labelled in range(5 * 100):
        model.add_metric(metric(labelled), 0)
    curve = model.curve("fraud", "areba")
    assert len(curve.positions) == len(curve.gmeans) <= 101
    steps = {later - earlier for earlier, later in zip(curve.positions, curve.positions[1:], strict=False)}
    assert steps == {8}
    assert model.curve("nobody", "areba").positions == []
