"""Detect that a learner has become worse, since when, and how many labels it took to recover.

A detector for each class follows the errors on that class only, one bit for each of its labels. The errors on all
labels would show the majority: if a minority of 1 % is no longer recognised, the error rate changes by a
hundredth. Wang, Minku, Ghezzi, Caltabiano, Tino, Yao (2013), Concept drift detection for online class
imbalance learning (DDM-OCI), watch the minority's recall for that reason; here both classes are watched, since
either class may become the rare one. The methods:

    hddm    HDDM-A of Frias-Blanco et al. (2015): is the mean error since a cut larger than that up to the cut, by more
            than Hoeffding's bound allows at 0.001? It assumes no distribution, and the cut says where the change began.
    ddm     DDM of Gama et al. (2004): is the error rate three standard deviations above its lowest? Sooner at small
            changes, but with a class that is nearly always right a single error is three deviations.

Measured on 5,000 labels of a class without any change, error rate 0.002, 0.05, 0.2, 0.4: false alarms of hddm 0.0, 0.0,
0.3, 0.2, of ddm 6.2, 0.7, 0.3, 0.1; from 0.05 to 0.6 after 200 labels, both take some ten labels of the class. So hddm
is the default. DDM-OCI gives the rule of ddm a faded recall, whose deviation is another than the rule assumes.

A flag resets its detector and nothing else: no model is reset. A drift that changes both classes is flagged twice; so a
flag counts as the last change again if its change began before the last flag, or if its class had no more than
1 / (1 - fading factor) labels since.

Recovery is defined by the prequential G-mean of the main window (see `prequential`), as it is published. The value
before the change is the value at the cut. The change began when the G-mean was last as high before the flag: for a rare
class, the cut can be long before that. The G-mean has recovered when it is at 90 % of the value before, and the labels
from the beginning of the change until then are counted. The G-mean depends on some 1 / (1 - fading factor) labels of
each class; until each class has had this many since the flag, the G-mean can fall again, and then the count continues.
A learner whose G-mean never fell below 90 % took 0 labels.

A correction of a label changes the G-mean from then on, but not the detectors, which keep the class that came first.

All state is in arrays. Square roots, the only function used, are correctly rounded: the bits are the same everywhere.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Doubles, Longs
from stream_app.config import ChangeDetector
from stream_app.errors import StateError
from stream_app.jit.compiler import compiled_without_refcounts, inlined_without_refcounts
from stream_app.jit.memory import (
    PREFETCH_DISTANCE,
    Number,
    Pointer,
    address_of,
    column_at,
    doubles_at,
    offset_pointer,
    prefetch_all,
    rows_at,
)
from stream_app.pipeline.prequential import CORRECTED, UNPREDICTED, Labelled

_RECOVERED = 0.9
"""The share of the value before the change at which a G-mean counts as recovered."""

HDDM, DDM = 1, 2

_LOG_1_0001 = 6.907755278982137
_LOG_2_0001 = 7.600902459542082
"""ln(1 / 0.001) and ln(2 / 0.001), for the authors' confidence; written out because libraries round differently."""

_WARM_UP = 30
"""Labels of its class before ddm decides anything; its authors' number."""

_DEVIATIONS = 3.0
"""Standard deviations above the lowest error rate at which ddm flags; its authors' number."""

# Columns of the detectors: mean error and labels now; mean error and labels (ddm: its deviation) at the cut
MEAN, COUNT, CUT_MEAN, CUT_OTHER = 0, 1, 2, 3

# Rows of the watches: the change that would be flagged for class 0, for class 1, and the one that was flagged last;
# columns: labels when it began, G-mean then, labels to recover (NaN: below)
_FLAGGED = 2
BEGAN, BEFORE, TOOK = 0, 1, 2

# The counts: labels so far, changes so far, labels at the last flag, labels of class 0 and 1 still to come until it is
# settled
LABELS, CHANGES, FLAGGED_AT, OPEN = 0, 1, 2, 3

REPORT_COLUMNS = 5

_NAMES = {"change_detectors": (2, 4), "change_watches": (3, 3), "change_counts": (5,)}
_STATE_SIZE = sum(math.prod(shape) for shape in _NAMES.values())


class DetectedChange(NamedTuple):
    """The last change of a learner, as known after some label; None: there was no change, or the number is not known.

    Attributes:
        changes: Changes flagged so far.
        flagged: Labels accepted when the last change was flagged.
        began: Labels accepted when the G-mean was last at its value before.
        gmean_before: That value.
        labels_to_recover: Labels from then until the G-mean was back.
    """

    changes: int
    flagged: int | None
    began: int | None
    gmean_before: float | None
    labels_to_recover: int | None


@inlined_without_refcounts
def _hddm(detectors: Doubles, row: Number) -> tuple[bool, bool]:
    """Say whether the cut is here, and whether the mean has risen since the cut: the one-sided test of the paper."""
    mean, count = detectors[row, MEAN], detectors[row, COUNT]
    cut_mean, cut_count = detectors[row, CUT_MEAN], detectors[row, CUT_OTHER]
    if cut_count == 0.0 or cut_mean + math.sqrt(1.0 / (2.0 * cut_count) * _LOG_1_0001) >= mean + math.sqrt(
        1.0 / (2.0 * count) * _LOG_1_0001
    ):
        detectors[row, CUT_MEAN] = mean
        detectors[row, CUT_OTHER] = count
        return True, False
    ratio = (count - cut_count) / cut_count * (1.0 / count)
    return False, mean - cut_mean >= math.sqrt(ratio / 2.0 * _LOG_2_0001)


@inlined_without_refcounts
def _ddm(detectors: Doubles, row: Number) -> tuple[bool, bool]:
    """Say whether the error rate is the lowest so far, and whether it is three deviations above its lowest."""
    mean, count = detectors[row, MEAN], detectors[row, COUNT]
    if count <= _WARM_UP:
        return False, False
    deviation = math.sqrt(mean * (1.0 - mean) / count)
    cut = count == _WARM_UP + 1 or mean + deviation <= detectors[row, CUT_MEAN] + detectors[row, CUT_OTHER]
    if cut:
        detectors[row, CUT_MEAN] = mean
        detectors[row, CUT_OTHER] = deviation
    return cut, mean + deviation > detectors[row, CUT_MEAN] + _DEVIATIONS * detectors[row, CUT_OTHER]


@inlined_without_refcounts
def _follow(watches: Doubles, row: Number, labels: float, gmean: float) -> None:
    """Take the G-mean after a label into a watch; a G-mean that is not known (NaN) has not recovered."""
    if row != _FLAGGED and gmean >= watches[row, BEFORE]:
        watches[row, BEGAN] = labels
        watches[row, TOOK] = 0.0
    elif not gmean >= _RECOVERED * watches[row, BEFORE]:
        watches[row, TOOK] = np.nan
    elif np.isnan(watches[row, TOOK]):
        watches[row, TOOK] = labels - watches[row, BEGAN]


@inlined_without_refcounts
def _flag(watches: Doubles, counts: Doubles, label: Number, memory: float) -> None:
    """Count the change that the detector of this class has found, unless it is the last change again."""
    if counts[CHANGES] > 0.0 and (counts[OPEN + label] > 0.0 or watches[label, BEGAN] < counts[FLAGGED_AT]):
        return
    for column in range(3):
        watches[_FLAGGED, column] = watches[label, column]
    counts[CHANGES] += 1.0
    counts[FLAGGED_AT] = counts[LABELS]
    counts[OPEN] = memory
    counts[OPEN + 1] = memory


@inlined_without_refcounts
def _report(watches: Doubles, counts: Doubles, reports: Doubles, row: Number) -> None:
    reports[row, 0] = counts[CHANGES]
    reports[row, 1] = counts[FLAGGED_AT]
    for column in range(3):
        reports[row, 2 + column] = watches[_FLAGGED, column]


@inlined_without_refcounts
def _look(method: int, memory: float, state: Pointer, label: Number, right: bool, sums: Doubles, k: Number) -> None:
    """Take one label into a monitor; row k of `sums` has the prequential sums after the label."""
    detectors, watches, counts = (
        rows_at(state, 2, 4),
        rows_at(offset_pointer(state, 8), 3, 3),
        column_at(offset_pointer(state, 17), 5),
    )
    gmean = np.nan
    if sums[k, 1] > 0.0 and sums[k, 3] > 0.0:
        gmean = math.sqrt(sums[k, 0] / sums[k, 1] * (sums[k, 2] / sums[k, 3]))
    counts[LABELS] += 1.0
    _follow(watches, 0, counts[LABELS], gmean)
    _follow(watches, 1, counts[LABELS], gmean)
    if counts[CHANGES] > 0.0:
        counts[OPEN + label] -= 1.0
        if counts[OPEN] > 0.0 or counts[OPEN + 1] > 0.0 or np.isnan(watches[_FLAGGED, TOOK]):
            _follow(watches, _FLAGGED, counts[LABELS], gmean)
    detectors[label, COUNT] += 1.0
    error = 0.0 if right else 1.0
    detectors[label, MEAN] += 1.0 / detectors[label, COUNT] * (error - detectors[label, MEAN])
    cut, changed = _hddm(detectors, label) if method == HDDM else _ddm(detectors, label)
    if cut:
        watches[label, BEGAN] = counts[LABELS]
        watches[label, BEFORE] = gmean
        watches[label, TOOK] = 0.0
    if changed:
        _flag(watches, counts, label, memory)
        for column in range(4):
            detectors[label, column] = 0.0


@compiled_without_refcounts
def run(
    states: Longs,
    method: int,
    memory: float,
    labelled: Labelled,
    predicted: NDArray[np.int8],
    sums: Doubles,
    reports: Doubles,
) -> None:
    """Take the labels of p streams into the monitor of one learner of each stream.

    Args:
        states: int64 `[p]`, addresses of the monitors' states; 0: the stream has no such learner.
        method: `HDDM` or `DDM`.
        memory: Labels of a class that the G-mean depends on, from `memory_of`.
        labelled: The labels.
        predicted: int8 `[k]`, the class of the prediction made on the example's arrival.
        sums: float64 `[k, 4]`, the prequential sums of the main window after each label.
        reports: float64 `[r, 5]`, filled: the last change at each report, see `change_of`.
    """
    for stream in range(len(states)):
        prefetch_all(states[min(stream + PREFETCH_DISTANCE, len(states) - 1)], 176)
        if states[stream] == 0:
            continue
        state = doubles_at(states[stream])
        report, last = labelled.reports[stream], labelled.reports[stream + 1]
        for k in range(labelled.bounds[stream], labelled.bounds[stream + 1] + 1):
            while report < last and labelled.seen[report] == k:
                _report(
                    rows_at(offset_pointer(state, 8), 3, 3), column_at(offset_pointer(state, 17), 5), reports, report
                )
                report += 1
            if k < labelled.bounds[stream + 1] and labelled.labels[k] < CORRECTED:
                if predicted[k] == UNPREDICTED:
                    state[17 + LABELS] += 1.0
                    continue
                label = 1 if labelled.labels[k] == 1 else 0
                _look(method, memory, state, label, predicted[k] == labelled.labels[k], sums, k)


def method_of(detector: ChangeDetector) -> int:
    """Return the number of a detector for `run`; 0: none."""
    return {"none": 0, "hddm": HDDM, "ddm": DDM}[detector]


def memory_of(fading: float) -> float:
    """Return the number of labels of a class that faded sums depend on, given the fading factor."""
    return float(round(1 / (1 - fading))) if fading < 1 else math.inf


class ChangeMonitor:
    """The detectors, and the last change, of one learner on one stream.

    Args:
        detector: `hddm`, `ddm`, or `none`, which finds nothing.
        fading: The fading factor of the main window.

    Attributes:
        address: The address of the state, for `run`; valid as long as this object exists.
    """

    def __init__(self, detector: ChangeDetector, fading: float) -> None:
        self._method, self._memory = method_of(detector), memory_of(fading)
        self._state = np.zeros(_STATE_SIZE)
        self.address = address_of(self._state)

    def run(
        self, predicted: NDArray[np.int8], labels: NDArray[np.int8], sums: Doubles, seen: Longs
    ) -> list[DetectedChange]:
        """Take k labels into the monitor, one after the other.

        Args:
            predicted: int8 `[k]`, the class of the prediction made on the example's arrival.
            labels: int8 `[k]`, the class, 0 or 1.
            sums: float64 `[k, 4]`, the sums of the main window after each label, by `prequential.COLUMNS`.
            seen: int64 `[r]`, ascending, how many of these labels come before each report.

        Returns:
            The last change at each report.
        """
        reports = np.zeros((len(seen), REPORT_COLUMNS))
        if self._method and (len(labels) or len(seen)):
            bounds, report_bounds = np.array([0, len(labels)], np.int64), np.array([0, len(seen)], np.int64)
            ages, none, costs = np.zeros((0, 3), np.int64), np.zeros(2, np.int64), np.zeros((0, 2), np.float32)
            labelled = Labelled(labels, bounds, seen, report_bounds, ages, none, costs)
            state = np.array([self.address], np.int64)
            run(state, self._method, self._memory, labelled, predicted, sums, reports)
        return [change_of(row) for row in reports.tolist()]

    def begin_after(self, labels: int) -> None:
        """Begin with this many labels of the stream already counted."""
        self._views()["change_counts"][LABELS] = labels

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """Return a copy of the state."""
        return {name: array.copy() for name, array in self._views().items()}

    def _views(self) -> Mapping[str, Doubles]:
        views, begin = {}, 0
        for name, shape in _NAMES.items():
            end = begin + math.prod(shape)
            views[name] = self._state[begin:end].reshape(shape)
            begin = end
        return views

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state.

        Raises:
            StateError: The arrays do not belong to a monitor.
        """
        for name, own in self._views().items():
            array = arrays.get(name)
            if array is None or array.shape != own.shape or array.dtype != own.dtype:
                shape = list(own.shape)
                raise StateError(f"the state of a change monitor must have numbers {shape} by the name {name}")
            own[...] = array


def change_of(row: Sequence[float]) -> DetectedChange:
    """Return the change that a row of reports describes."""
    changes, flagged, began, before, took = row
    if not changes:
        return DetectedChange(0, None, None, None, None)
    return DetectedChange(
        changes=int(changes),
        flagged=int(flagged),
        began=int(began),
        gmean_before=None if math.isnan(before) else before,
        labels_to_recover=None if math.isnan(took) else int(took),
    )
