"""Claims of the paper: each holds, fails, or is undecided, and one wrong case refutes a claim."""

import numpy as np
import pytest

pytest.importorskip("statsmodels", reason="the optional extra `study` is not installed")

from study.paper import Statement
from study.report.claims.check import Claim, check
from study.report.claims.intervals import Interval, Verdict, mean_interval, unpaired_interval, verdict
from study.report.drawing.colours import COLOURS, colour_of
from study.report.drawing.ends import spread
from study.report.front import place_of
from study.report.summary import RunSummary, gmeans_of, summarise
from study.run.experiment import Run, parse
from study.run.runs import Repetition
from study.run.store import Store
from study.statistics import Comparison

LENGTH, REPETITIONS = 400, 12

SHARES = {"areba_20": 0.1, "areba_2": 0.3, "oob": 0.3, "baseline": 0.9}
"""The share of examples that each learner gets wrong."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunSummary, Store]:
    """Return a run of learners of known quality, and its store."""
    methods = {name: {"method": "areba", "budget": 20} for name in SHARES}
    stream = {"source": "sine", "length": LENGTH, "imbalance": 10, "drift": "posterior", "drift_step": 200}
    data = {"name": "sine-1-posterior", "title": "one", "group": "drift", "stream": stream, "methods": methods}
    run, store = Run(parse(data, "one"), "both"), Store(tmp_path_factory.mktemp("claims"), "1")
    for repetition in range(REPETITIONS):
        draw = np.random.default_rng(repetition)
        labels = (draw.random(LENGTH) < 0.5).astype(np.int8)
        wrong = np.stack([draw.random(LENGTH) < share for share in SHARES.values()])
        classes = (labels ^ wrong).astype(np.int8)
        store.put(run, repetition, Repetition(classes, classes.astype(np.float32), labels, 1.0))
    summary = summarise(run, store)
    assert summary is not None
    return summary, store


def _claim(
    runs: tuple[RunSummary, Store],
    relation: str,
    learners: str,
    against: str = "",
    *,
    step: str = "last",
    value: float | None = None,
) -> Claim:
    summary, store = runs
    names = (summary.run.name,)
    statement = Statement("c", "fig", names, relation, tuple(learners.split()), tuple(against.split()), step, value)
    (claim,) = check([statement], {summary.run.name: summary}, lambda one, name: gmeans_of(one.run, name, store))
    return claim


def test_a_figure_inside_the_range_holds_outside_fails_and_across_is_undecided() -> None:
    """A difference that the repetitions cannot tell counts neither for the paper nor against it."""
    margins = (-0.05, 0.05)
    for interval, expected in (
        (Interval(-0.04, 0.04), Verdict.HOLDS),
        (Interval(0.06, 0.2), Verdict.FAILS),
        (Interval(-0.2, -0.05), Verdict.FAILS),
        (Interval(0.01, 0.07), Verdict.UNDECIDED),
        (Interval(-0.3, 0.3), Verdict.UNDECIDED),
    ):
        assert verdict(interval, interval, *margins) is expected
    assert verdict(Interval(-0.004, 0.004), Interval(-0.006, 0.006), 0.0, 1.0, 0.01) is Verdict.FAILS
    assert verdict(Interval(0.001, 0.004), Interval(0.0, 0.005), 0.0, 1.0, 0.01) is Verdict.HOLDS
    assert verdict(Interval(0.06, 0.2), Interval(0.04, 0.22), *margins) is Verdict.UNDECIDED


def test_intervals_are_those_of_student_and_welch() -> None:
    """A wrong interval would turn undecided statements into true ones."""
    values = np.array([1.0, 2.0, 3.0, 4.0])
    found = mean_interval(values)
    assert (found.low, found.high) == pytest.approx((2.5 - 2.0542, 2.5 + 2.0542), abs=1e-3)
    welch = unpaired_interval(values, values + 1.0)
    assert (welch.low, welch.high) == pytest.approx((-1.0 - 2.2338, -1.0 + 2.2338), abs=1e-3)
    assert mean_interval(np.array([1.0])) == Interval(-np.inf, np.inf)


def test_a_claim_holds_only_if_all_its_cases_hold(runs: tuple[RunSummary, Store]) -> None:
    """25 rows of "AREBA_2 ends above X" are one claim, and one rival that is ahead refutes it."""
    assert _claim(runs, "above", "areba_20", "*").verdict is Verdict.HOLDS
    assert _claim(runs, "above", "areba_20", "*").count(Verdict.HOLDS) == 3
    mixed = _claim(runs, "above", "areba_2", "areba_20 baseline")
    assert [finding.verdict for finding in mixed.findings] == [Verdict.FAILS, Verdict.HOLDS]
    assert mixed.verdict is Verdict.FAILS
    assert _claim(runs, "above", "areba_2", "oob").verdict is Verdict.UNDECIDED
    assert _claim(runs, "above", "areba_20", "areba_2", value=0.5).verdict is Verdict.FAILS
    assert _claim(runs, "above", "areba_20", "areba_2", step="after").verdict is Verdict.HOLDS
    assert _claim(runs, "above", "areba_20", "unknown").verdict is Verdict.NOT_RUN


def test_every_other_relation_is_judged(runs: tuple[RunSummary, Store]) -> None:
    """A relation that is always true would confirm anything the paper says."""
    assert _claim(runs, "alike", "areba_20", "baseline").verdict is Verdict.FAILS
    assert _claim(runs, "about", "areba_20", value=0.9).verdict is Verdict.HOLDS
    assert _claim(runs, "about", "areba_20", value=0.5).verdict is Verdict.FAILS
    assert _claim(runs, "times", "areba_20", "baseline", value=2.0).verdict is Verdict.HOLDS
    assert _claim(runs, "times", "areba_20", "areba_2", value=2.0).verdict is Verdict.FAILS
    assert _claim(runs, "recovers", "areba_20").verdict is Verdict.HOLDS
    assert _claim(runs, "above_before", "baseline").verdict is not Verdict.HOLDS
    assert _claim(runs, "reaches", "areba_20", step="30", value=0.7).verdict is Verdict.HOLDS
    assert _claim(runs, "reaches", "areba_20", step="150", value=0.7).verdict is Verdict.FAILS
    assert _claim(runs, "reaches", "baseline", step="100", value=0.9).verdict is Verdict.FAILS
    assert _claim(runs, "reaches", "baseline", step="300", value=0.9).verdict is Verdict.UNDECIDED
    assert _claim(runs, "overtakes", "areba_20", "areba_2", value=21).verdict is Verdict.HOLDS


def test_best_is_best_and_tied_is_tied() -> None:
    """A method that only the tests cannot tell from the best must not be called the best."""
    alone, both = (Comparison(1.0, 0.0, {}, frozenset(names)) for names in (["a"], ["a", "b"]))
    assert [place_of("a", alone), place_of("b", alone)] == ["best", "behind"]
    assert [place_of("a", both), place_of("b", both)] == ["tied", "tied"]


def test_no_two_methods_share_a_colour() -> None:
    """River's methods had the colours of ours, so that a reader took one for the other."""
    methods = [name for name in COLOURS if "=" not in name and "%" not in name]
    assert len({colour_of(name) for name in methods}) == len(methods)
    assert colour_of("mine") not in COLOURS.values()


def test_labels_do_not_overlap() -> None:
    """Names at the ends of equal curves are still readable, and stay inside the panel."""
    placed = spread([0.99, 0.98, 0.98, 0.1], 0.05, 0.0, 1.0)
    assert placed[3] == pytest.approx(0.1)
    ordered = sorted(placed)
    assert min(np.diff(ordered)) >= 0.05 - 1e-12
    assert ordered[-1] <= 1.0
