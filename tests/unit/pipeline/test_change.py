"""Changes: the detectors are River's, each class has its own, and the recovery count is correct."""

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.config import ChangeDetector
from stream_app.errors import StateError
from stream_app.pipeline.degradation import ChangeMonitor, DetectedChange
from stream_app.pipeline.prequential import Prequential

Classes = NDArray[np.int8]
NOTHING = DetectedChange(0, None, None, None, None)


def river() -> Any:  # noqa: ANN401  (a module that publishes few types)
    """Return the reference, which must exist on a build server."""
    if os.environ.get("CI") == "true":
        import river.drift.binary  # noqa: PLC0415  (an extra)

        return river.drift.binary
    return pytest.importorskip("river.drift.binary", reason="river is in the extra `study`")


def stretch(random: np.random.Generator, count: int, share: float, recall: float, specificity: float) -> Sequence[Any]:
    """Return this many predictions and labels with this share of class 1, recognised with these probabilities."""
    labels = (random.random(count) < share).astype(np.int8)
    right = random.random(count) < np.where(labels == 1, recall, specificity)
    return np.where(right, labels, 1 - labels).astype(np.int8), labels


def joined(*stretches: Sequence[Any]) -> tuple[Classes, Classes]:
    """Return the stretches, one after the other."""
    return np.concatenate([part[0] for part in stretches]), np.concatenate([part[1] for part in stretches])


def every_label(
    predicted: Classes, labels: Classes, detector: ChangeDetector = "hddm", fading: float = 0.99
) -> list[DetectedChange]:
    """Return the change that is reported after each label."""
    [sums] = Prequential([fading]).run(predicted, labels)
    return ChangeMonitor(detector, fading).run(predicted, labels, sums, np.arange(1, len(labels) + 1))


def gmean_of(sums: Sequence[float]) -> float | None:
    """Return the G-mean of a row of sums; None until both classes were seen."""
    positive_correct, positive_total, negative_correct, negative_total = sums
    if not (positive_total and negative_total):
        return None
    return math.sqrt(positive_correct / positive_total * (negative_correct / negative_total))


def plain(predicted: Classes, labels: Classes, make: Callable[[], Any], fading: float) -> list[DetectedChange]:
    """Compute the same with River's detectors and a list of all G-means, written independently."""
    [sums] = Prequential([fading]).run(predicted, labels)
    gmeans = list(map(gmean_of, sums.tolist()))
    memory = round(1 / (1 - fading))
    detectors, cuts, since = [make(), make()], [-1, -1], [0, 0]
    changes, flagged, began, before, result = 0, -1, -1, None, []
    end = 0  # end of the G-means that the recovery considers
    for k, (answer, label) in enumerate(zip(predicted.tolist(), labels.tolist(), strict=True)):
        since[label] += 1
        if changes and (min(since) < memory or not back(gmeans[end], before)):
            end = k
        detector = detectors[label]
        earlier = None if detector.drift_detected else lowest(detector)
        detector.update(int(answer != label))
        if detector.drift_detected:
            start = beginning(gmeans, cuts[label], k)
            if not changes or (start >= flagged and since[label] >= memory):
                changes, flagged, began, before = changes + 1, k, start, gmeans[cuts[label]]
                since, end = [0, 0], k
        elif lowest(detector) is not None and (lowest(detector) != earlier or at_its_lowest(detector)):
            cuts[label] = k
        if not changes:
            result.append(NOTHING)
            continue
        below = [place for place in range(began, end + 1) if not back(gmeans[place], before)]
        took = None if below and below[-1] == end else below[-1] + 1 - began if below else 0
        result.append(DetectedChange(changes, flagged + 1, began + 1, before, took))
    return result


def beginning(gmeans: Sequence[float | None], cut: int, flagged: int) -> int:
    """Return where the G-mean last had at least its value at the cut."""
    level = gmeans[cut]
    if level is None:
        return cut
    return max(place for place in range(cut, flagged + 1) if (gmeans[place] or 0.0) >= level)


def back(gmean: float | None, before: float | None) -> bool:
    """Say whether the G-mean is back at 90 % of its value before."""
    return before is not None and gmean is not None and gmean >= 0.9 * before


def lowest(detector: Any) -> object:  # noqa: ANN401  (River's)
    """Return a value that shows where a detector of River has its cut."""
    if hasattr(detector, "_x_min"):
        return (detector._x_min.n, detector._x_min.get()) if detector._x_min.n else None
    return None if detector._p_min is None else (detector._p_min, detector._s_min)


def at_its_lowest(detector: Any) -> bool:  # noqa: ANN401  (River's)
    """Say whether the error rate of a DDM is at its lowest now, even if it was as low before."""
    if hasattr(detector, "_x_min"):
        return bool(detector._x_min.n == detector._z.n)
    mean, count = detector._p.get(), detector._p.n
    return bool(mean + math.sqrt(mean * (1 - mean) / count) == detector._ps_min)


@pytest.mark.slow
@pytest.mark.parametrize("fading", [0.99, 0.9])
@pytest.mark.parametrize("name", ["hddm", "ddm"])
@pytest.mark.parametrize("seed", range(4))
def test_detectors_give_the_flags_of_river(name: ChangeDetector, seed: int, fading: float) -> None:
    """Users who know these detectors from River get the same flags, for each class and to the label."""
    binary = river()
    random = np.random.default_rng(seed)
    predicted, labels = joined(
        *(
            stretch(random, int(random.integers(50, 600)), float(random.choice([0.05, 0.3, 0.5])), *random.random(2))
            for _ in range(6)
        )
    )
    expected = plain(predicted, labels, {"hddm": binary.HDDMA, "ddm": binary.DDM}[name], fading)
    found = every_label(predicted, labels, name, fading)
    assert found == expected
    assert found[-1].changes > 0


def test_a_minority_that_is_lost_is_noticed() -> None:
    """At 1 % the error rate of all labels rises by less than a hundredth, which would go unnoticed."""
    random = np.random.default_rng(1)
    predicted, labels = joined(stretch(random, 20_000, 0.01, 0.9, 0.95), stretch(random, 5_000, 0.01, 0.1, 0.95))
    found = every_label(predicted, labels)
    assert found[19_999] == NOTHING
    change = found[-1]
    assert change.changes == 1
    assert change.flagged is not None
    assert change.began is not None
    assert (labels[20_000 : change.flagged] == 1).sum() < 25
    assert abs((labels[20_000 : change.began] == 1).sum() - (labels[change.began : 20_000] == 1).sum()) < 10
    assert change.gmean_before == pytest.approx(math.sqrt(0.9 * 0.95), abs=0.08)
    assert change.labels_to_recover is None


@pytest.mark.parametrize("share", [0.01, 0.5])
def test_a_steady_learner_is_left_alone(share: float) -> None:
    """A false alarm at night gets switched off; learning itself must not count as a change either."""
    random = np.random.default_rng(2)
    learning = [stretch(random, 500, share, recall, 0.6 + recall / 3) for recall in (0.2, 0.4, 0.6, 0.8)]
    predicted, labels = joined(*learning, stretch(random, 40_000, share, 0.8, 0.9))
    assert every_label(predicted, labels)[-1] == NOTHING


def test_recovery_is_counted_from_where_the_change_began() -> None:
    """The figure that says whether a learner recovers, computed by hand with classes in turn and a simple G-mean."""
    labels = np.tile(np.array([1, 0], np.int8), 600)
    wrong = np.zeros(1200, bool)
    wrong[400:480:2] = True  # positives 200 to 239
    predicted = np.where(wrong, 1 - labels, labels).astype(np.int8)
    found = every_label(predicted, labels, fading=0.9)
    first = next(change for change in found if change.changes)
    assert first.began == 400, "the last label at which all was well, counted from 1"
    assert first.gmean_before == 1.0
    assert first.labels_to_recover is None
    gmeans = [gmean_of(row) or 0.0 for row in Prequential([0.9]).run(predicted, labels)[0].tolist()]
    returned = next(place for place in range(480, 1200) if gmeans[place] >= 0.9) + 1
    assert found[-1] == first._replace(labels_to_recover=returned - 400)
    assert found[returned - 2].labels_to_recover is None


def test_a_dip_that_the_gmean_does_not_show_takes_no_labels() -> None:
    """A small change is reported, but there is nothing to recover from."""
    random = np.random.default_rng(3)
    predicted, labels = joined(stretch(random, 8_000, 0.5, 0.99, 0.99), stretch(random, 8_000, 0.5, 0.93, 0.99))
    change = every_label(predicted, labels)[-1]
    assert change.changes == 1
    assert change.labels_to_recover == 0


def test_both_classes_tell_of_one_change() -> None:
    """A drift that affects both classes is one change; its earlier value comes from before the drift."""
    random = np.random.default_rng(4)
    predicted, labels = joined(stretch(random, 4_000, 0.3, 0.95, 0.95), stretch(random, 1_000, 0.3, 0.3, 0.3))
    change = every_label(predicted, labels)[-1]
    assert change.changes == 1
    assert change.gmean_before == pytest.approx(0.95, abs=0.06)
    again = joined((predicted, labels), stretch(random, 4_000, 0.3, 0.95, 0.95), stretch(random, 1_000, 0.3, 0.3, 0.3))
    assert every_label(*again)[-1].changes == 2


def test_one_class_alone() -> None:
    """Before the other class comes there is no G-mean and nothing to recover, but the flag is set."""
    labels = np.zeros(300, np.int8)
    predicted = np.repeat(np.array([0, 1], np.int8), 150)
    change = every_label(predicted, labels)[-1]
    assert change.changes == 1
    assert (change.gmean_before, change.labels_to_recover) == (None, None)


def test_none_finds_nothing() -> None:
    """A user who switches it off gets neither flags nor their cost."""
    labels = np.tile(np.array([1, 0], np.int8), 500)
    assert set(every_label(np.repeat(np.array([1, 0], np.int8), 500), labels, "none")) == {NOTHING}


@pytest.mark.parametrize("name", ["hddm", "ddm"])
@pytest.mark.parametrize("cut", [1, 7, 400])
def test_cuts_and_a_restored_state_give_the_same(cut: int, name: ChangeDetector) -> None:
    """Metrics are compared byte for byte after a crash; the cut of a batch must not show in them."""
    random = np.random.default_rng(5)
    predicted, labels = joined(stretch(random, 300, 0.3, 0.9, 0.9), stretch(random, 300, 0.3, 0.2, 0.9))
    whole = every_label(predicted, labels, name)
    [sums] = Prequential([0.99]).run(predicted, labels)
    parts, monitor = [], ChangeMonitor(name, 0.99)
    for start in range(0, 600, cut):
        restored = ChangeMonitor(name, 0.99)
        restored.load(monitor.arrays())
        monitor = restored
        piece = slice(start, start + cut)
        count = len(labels[piece])
        parts += monitor.run(predicted[piece], labels[piece], sums[piece], np.arange(1, count + 1))
    assert parts == whole
    assert whole[-1].changes > 0


def test_reports_between_labels() -> None:
    """Marks report metrics at any place: before any label, twice at one place, after the last label."""
    random = np.random.default_rng(6)
    predicted, labels = joined(stretch(random, 300, 0.3, 0.9, 0.9), stretch(random, 300, 0.3, 0.2, 0.9))
    [sums] = Prequential([0.99]).run(predicted, labels)
    found = ChangeMonitor("hddm", 0.99).run(predicted, labels, sums, np.array([0, 0, 500, 500, 600]))
    every = every_label(predicted, labels)
    assert found == [NOTHING, NOTHING, every[499], every[499], every[599]]


def test_a_damaged_state_of_a_detector_is_refused() -> None:
    """A snapshot of something else must not become a metric."""
    arrays = dict(ChangeMonitor("hddm", 0.99).arrays())
    for name in arrays:
        with pytest.raises(StateError, match=name):
            ChangeMonitor("hddm", 0.99).load({**arrays, name: np.zeros(1)})
