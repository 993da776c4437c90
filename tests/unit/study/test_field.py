"""The comparison of the field."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("scipy", reason="the optional extra `study` is not installed")

from stream_app.producers.datasets.files import data_dir_from_environment
from study import generators
from study.field.claims import better_pairs, verdicts
from study.field.measured import Measured
from study.field.methods import FAST, LEARNERS, slow_methods
from study.field.ranks import ranking_of, signed_rank
from study.field.report import MODELS_PAGE, PAGE, draw_pictures, models_table, tables
from study.field.results import Finished, Repetition, Row, read_results, write_results
from study.field.run import Asked, fast_work, missing, rows_of, slow_work
from study.field.scoring import WINDOW, Measures, measures_of, roc_aucs
from study.field.streams import KINDS, LENGTH, PERCENTS, SLOW_STREAMS, further_streams, has_data, streams
from study.field.thresholds import decisions_of
from study.selective.methods import OneLearner
from study.selective.policies import POLICIES
from study.selective.scoring import kappa
from study.selective.world import predictions_of


def test_examples_before_both_classes_give_no_credit() -> None:
    """A method that always says "negative" would otherwise score until the first positive example comes."""
    labels = np.zeros(4 * WINDOW, np.int8)
    labels[WINDOW + 7 :: 50] = 1
    never = measures_of(np.zeros_like(labels), np.zeros(len(labels), np.float32), labels)
    assert never[:3] == (0.0, 0.0, 0.5)
    assert never.gmean_faded == 0.0
    perfect = measures_of(labels, labels.astype(np.float32), labels)
    assert perfect == Measures(1.0, 1.0, 1.0, 1.0, 1.0)


def test_measures_are_means_over_windows() -> None:
    """A method that is right in one of two windows has half of each measure that is 0 in the other."""
    labels = np.array([0, *np.tile([1, 0, 0, 0, 0], 2 * WINDOW // 5)], np.int8)
    classes = np.where(np.arange(len(labels)) <= WINDOW, labels, 0).astype(np.int8)
    found = measures_of(classes, None, labels)
    assert (found.gmean, found.kappa) == (0.5, 0.5)
    assert np.isnan(found.roc_auc)
    assert np.isnan(found.average_precision)


def test_the_roc_area_is_the_share_of_pairs_in_order() -> None:
    """Equal scores count half; a rank that ignored ties would reward a method that gives one score to all."""
    random = np.random.default_rng(3)
    scores = random.integers(0, 5, (2, 60)).astype(np.float32)
    true = random.random((2, 60)) < 0.3
    for own, labels, area in zip(scores, true, roc_aucs(scores, true), strict=True):
        pairs = own[labels][:, None] - own[~labels]
        assert area == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean())


def test_the_threshold_for_kappa_is_the_best_one() -> None:
    """One half alone would lose Kappa where the classes overlap; the threshold follows from the labels so far."""
    random = np.random.default_rng(5)
    probabilities = (random.random(40_000) ** 6 * 0.6).astype(np.float32)
    labels = (random.random(40_000) < probabilities).astype(np.int8)
    decisions = decisions_of(probabilities, labels)
    true, late = labels == 1, slice(20_000, None)
    found = kappa(decisions.kappa[late] == 1, true[late])
    fixed = [kappa(probabilities[late] > one, true[late]) for one in np.linspace(0.02, 0.58, 57)]
    assert found > max(fixed) - 0.02
    assert found > kappa(decisions.half[late] == 1, true[late]) + 0.05


def test_a_decision_knows_no_label_of_its_own_or_later_examples() -> None:
    """A probability that had seen the label would be a score that no application can have."""
    random = np.random.default_rng(6)
    scores, labels = random.random(3_000).astype(np.float32), (random.random(3_000) < 0.1).astype(np.int8)
    changed = labels.copy()
    changed[2_000:] = 1 - changed[2_000:]
    one, two = decisions_of(scores, labels), decisions_of(scores, changed)
    assert (one.probabilities[:2_001] == two.probabilities[:2_001]).all()
    assert (one.half[:2_001] == two.half[:2_001]).all()
    assert (one.kappa[:2_001] == two.kappa[:2_001]).all()
    assert (one.probabilities[2_100:] != two.probabilities[2_100:]).any()


def test_nemenyi_has_the_published_critical_values() -> None:
    """Demsar (2006), section 3.2.2: 14 data sets and 4 classifiers, C4.5 with parameters tuned, have CD = 1.25."""
    values = np.random.default_rng(7).random((14, 4))
    ranking = ranking_of(values)
    assert ranking.critical_difference == pytest.approx(1.25, abs=0.005)
    assert ranking.ranks.sum() == pytest.approx(10.0)
    best = ranking_of(np.column_stack([values, values.max(axis=1) + 1.0]))
    assert best.ranks[-1] == 1.0
    assert best.p_value < 0.01


def test_the_signed_rank_posterior_finds_better_worse_and_the_same() -> None:
    """A sign error would crown the wrong method; differences within the region of equivalence crown none."""
    random = np.random.default_rng(8)
    assert signed_rank(0.05 + 0.02 * random.normal(size=30)).higher > 0.99
    assert signed_rank(-0.05 + 0.02 * random.normal(size=30)).lower > 0.99
    assert signed_rank(0.003 * random.normal(size=30)).same > 0.99
    unsure = signed_rank(np.array([0.1, -0.12, 0.05, -0.05, 0.2, -0.18]))
    assert max(unsure) < 0.95
    assert sum(unsure) == pytest.approx(1.0)


def test_streams_have_the_survey_s_length_and_all_parts() -> None:
    """A missing generator or a short stream would be another comparison than the page says."""
    known = streams()
    assert len(known) == 9 * len(KINDS) * len(PERCENTS)
    assert set(SLOW_STREAMS) <= set(known)
    data = known["gradual-sine-20"](0)
    assert len(data) == LENGTH
    assert data.labels.mean() == pytest.approx(0.2, abs=0.005)


def test_further_streams_have_all_generators_and_shares_that_flip() -> None:
    """A generator that is missing here is in no table of such streams."""
    known = further_streams()
    assert {name for name in known if name.startswith("flipping")} == {
        f"flipping-{name.replace('_', '-')}" for name in generators.__all__
    }
    labels = known["flipping-sine"](0).labels.reshape(20, -1).mean(axis=1)
    assert (labels[0], labels[-1]) == pytest.approx((0.01, 0.99), abs=0.005)
    assert not has_data("covertype") or data_dir_from_environment() is not None


@pytest.mark.parametrize("name", ["relay", "oob_scaled"])
def test_a_row_is_what_the_application_predicts(name: str) -> None:
    """The other benchmark's loop is compared with the worker; another order of steps here would give other figures."""
    data, seed = streams()["sudden-sine-5"](0).prefix(2_500), bytes(32)
    rows = FAST[name](data, seed)
    expected = predictions_of(OneLearner(LEARNERS[name], data, seed), data.labels, POLICIES["at-once"])
    assert (rows[name].classes == expected).all()
    scores, probabilities = rows[name].scores, rows[f"{name}_kappa"].scores
    assert scores is not None
    assert probabilities is not None
    assert (probabilities == decisions_of(scores, data.labels).probabilities).all()
    assert rows.keys() == set(rows_of(name))


def test_a_slow_method_is_a_learner_of_the_study() -> None:
    """River's logistic regression learns Sine's border from labels at once, one example at a time."""
    data = streams()["sudden-sine-5"](0).prefix(2_500)
    [(name, own)] = slow_methods("")["river_lr_over"](data, bytes(32)).items()
    assert name == "river_lr_over"
    assert measures_of(own.classes, own.scores, data.labels).roc_auc > 0.6
    assert own.seconds > 0.0


def test_an_interrupted_run_continues(tmp_path: Path) -> None:
    """What is in the file is not run again, and a method whose rows are not all there is."""
    path = tmp_path / "field.csv"
    work = fast_work(["static-sine-1"], 2)
    row = Row(Measures(0.5, 0.25, float("nan"), float("nan"), 0.5), 1.5)
    finished = {Repetition("static-sine-1", name, 0): row for name in rows_of("relay")}
    finished |= {Repetition("static-sine-1", "oob_scaled", 0): row}
    write_results(finished, path)
    read = read_results(path)
    assert read.keys() == finished.keys()
    assert np.isnan(next(iter(read.values())).measures.roc_auc)
    left = missing(work, read)
    assert left[0] == Asked("static-sine-1", 0, tuple(name for name in work[0].methods if name != "relay"))
    assert left[1] == work[1]
    assert {one.stream for one in slow_work([*streams()], slow_methods(""))} == set(SLOW_STREAMS)


def _finished(shift: float) -> Finished:
    """Return figures of every row on every stream for two seeds; RELAY is higher than all others by `shift`."""
    random, found = np.random.default_rng(9), Finished()
    for stream, seed in product(streams(), range(2)):
        level = random.random() / 2.0
        for row in (row for method in FAST for row in rows_of(method)):
            own = level + random.normal(0.0, 0.002, 5) + (shift if row.startswith("relay") else 0.0)
            own[1] += 0.1 if row.endswith("_kappa") else 0.0
            found[Repetition(stream, row, seed)] = Row(Measures(*own.tolist()), 2.0)
    return found


def test_the_page_says_who_is_better(tmp_path: Path) -> None:
    """Verdicts follow from the figures: with RELAY ahead its claims hold, and with RELAY below the others none does."""
    ahead, below = Measured(_finished(0.1)), Measured(_finished(-0.1))
    assert ahead.seeds == (0, 1)
    assert [one.holds for one in verdicts(ahead)] == [True] * 6
    assert [one.holds for one in verdicts(below)] == [False] * 4 + [True, False]
    better, worse = (better_pairs(measured, "gmean") for measured in (ahead, below))
    assert {one.higher for one in better} == {one.lower for one in worse} == {"relay"}
    assert len(better) == len(worse) == 2 * (9 + len(KINDS) + len(PERCENTS))
    draw_pictures(ahead, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"field-ranks.png", "field-both.png"}


def test_a_seed_counts_once_all_streams_have_it() -> None:
    """Means over fewer streams for one method would compare different things."""
    finished = _finished(0.0)
    del finished[Repetition("sudden-sine-5", "oob_scaled_kappa", 1)]
    assert Measured(finished).seeds == (0,)


def test_the_committed_page_follows_from_the_committed_figures() -> None:
    """A page that was edited by hand, or not written again, would say what nobody measured."""
    text, measured = PAGE.read_text(encoding="utf-8"), Measured(read_results())
    for name, table in tables(measured):
        assert f"<!-- {name} -->\n{table}\n<!-- end -->" in text, name
    assert models_table(measured) in MODELS_PAGE.read_text(encoding="utf-8")
