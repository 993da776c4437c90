"""The report of a few small runs: every part is there, every figure is drawn, different results are distinguished."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("statsmodels", reason="the optional extra `study` is not installed")


from stream_app.terminal import Terminal
from study.paper import table_figures
from study.report.compare import compare_repetitions
from study.report.differences import differences, gap
from study.report.page import Context
from study.report.parts.river import LEAST_REPETITIONS, PREFIX
from study.report.report import write_report
from study.report.rivals.pages import MEASURED
from study.report.summary import summarise
from study.report.tables import with_table, write_repetitions
from study.run.experiment import Run, parse, runs_of
from study.run.runs import Repetition
from study.run.store import Store, engine_version

LENGTH = 400


RIVERS = ("areba_20", "oob", "river_lr_over", "river_hat", "relay")


def _settings(name: str) -> dict[str, Any] | None:
    if name.startswith("river_"):
        return {"method": "study.river_models:OversampledLogistic"}
    return {"method": "areba", "budget": int(name.removeprefix("areba_"))} if name[-1].isdigit() else None


def _runs() -> list[Run]:
    def of(name: str, group: str, learners: tuple[str, ...], **stream: Any) -> list[Run]:  # noqa: ANN401  (plain data)
        methods = {name: _settings(name) for name in learners}
        source: dict[str, Any] = {"source": "sine", "length": LENGTH, "imbalance": 10, **stream}
        if source["source"] == "credit":
            del source["imbalance"]
        varies = ("weights", "both") if group == "real" else ("both", "data")
        data = {"name": name, "title": name, "group": group, "stream": source, "methods": methods, "varies": varies}
        return runs_of([parse(data, name)])

    budgets = ("areba_2", "areba_20", "areba_50", "areba_100", "areba_500", "areba_1000")
    some = ("areba_20", "areba_2", "oob_single", "oob", "adaptive_cs", "sliding", "baseline")
    drifting = {"drift": "posterior", "drift_step": 200}
    return [
        *of("budget-sine-10-posterior", "budget", budgets, **drifting),
        *of("sine-10-stationary", "stationary", some),
        *of("sine-1-posterior", "drift", some, **drifting),
        *of("sine-1-posterior-noise", "drift", some, noise=0.1, **drifting),
        *of("real-credit", "real", some, source="credit"),
        *of("latency-0", "beyond", some),
        *of("latency-10", "beyond", some, label_delay="fixed:10ev"),
        *of("long-sine", "beyond", some),
        *of("river-sine", "beyond", RIVERS),
        *of("river-credit", "beyond", ("river_lr_over", "relay", "areba_20", "oob"), source="credit"),
    ]


def _fill(store: Store, runs: list[Run], worse: float = 0.0) -> None:
    """Store learners of known quality: the first in an experiment is right most often."""
    for place, run in enumerate(runs):
        for repetition in range(LEAST_REPETITIONS if run.name.startswith(PREFIX) else 4):
            draw = np.random.default_rng([place, repetition])
            labels = (draw.random(LENGTH) < 0.2).astype(np.int8)
            rows = len(run.experiment.methods)
            wrong = draw.random((rows, LENGTH)) < worse + np.linspace(0.05, 0.4, rows)[:, None]
            classes = (labels ^ wrong).astype(np.int8)
            store.put(run, repetition, Repetition(classes, classes.astype(np.float32), labels, 1.0))


LONG, DRIFT_STEP = 10_300, 10_000
"""Longer than the number of points that a curve keeps."""


def _long_run() -> Run:
    stream = {"source": "sine", "length": LONG, "imbalance": 10, "drift": "posterior", "drift_step": DRIFT_STEP}
    data = {"name": "long", "title": "long", "group": "drift", "stream": stream}
    data["methods"] = {"areba_20": {"method": "areba", "budget": 20}}
    return runs_of([parse(data, "long")])[0]


def _right_until_the_drift() -> Repetition:
    labels = (np.arange(LONG) % 2).astype(np.int8)
    classes = labels ^ (np.arange(LONG) >= DRIFT_STEP).astype(np.int8)
    return Repetition(classes[None], classes[None].astype(np.float32), labels, 1.0)


def _report(folder: Path, runs: list[Run]) -> Path:
    store = folder / "store"
    _fill(Store(store, engine_version()), runs)
    return write_report(runs, store, folder / "results", "python -m study report", Terminal(quiet=True))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of all of them."""
    return _report(tmp_path_factory.mktemp("report"), _runs())


@pytest.mark.slow
def test_every_part_that_was_run_is_in_the_report(page: Path) -> None:
    """A reader finds tables, claims, figures and tests, and no link to a missing page or picture."""
    pages = {path.stem: path.read_text(encoding="utf-8") for path in page.parent.glob("*.md")}
    for name, heading in (
        ("real", "## The paper's table"),
        ("statements", "## Claims"),
        ("budget", "## The role of the budget"),
        ("stationary", "## Stationary streams"),
        ("drift", "## Drift, with and without noise in the labels"),
        ("drift", "## What the reset at a drift does"),
        ("real", "## Real data sets"),
        ("differences", "## What a repetition varies"),
        ("differences", "## Where our figures differ"),
        ("labels", "## Late labels"),
        ("recovery", "## Time to recover"),
        ("scale", "## Long and wide"),
        ("tests", "## Tests"),
        ("river", "## What a user would pick instead"),
        ("river", "## Scores"),
        ("relay", "## Claims that were registered first"),
        ("method", "## How it is run and scored"),
    ):
        assert heading in pages[name]
    assert "tuning" not in pages, "it was not run"
    for name, text in pages.items():
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if link.startswith("../"):
                assert (MEASURED / link.partition("#")[0]).exists(), f"{name}: {link}"
                continue
            assert (page.parent / link).stat().st_size > 100, f"{name}: {link}"
            if link.endswith(".png"):
                assert (page.parent / link).read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_an_experiment_of_ones_own_is_in_its_report(tmp_path: Path) -> None:
    """Who runs an experiment of his own wants its figures, and no page about runs that he did not make."""
    data = _runs()[0].experiment.model_copy(update={"name": "mine", "title": "Mine", "group": "beyond"})
    text = _report(tmp_path, [Run(data, "both")]).read_text(encoding="utf-8")
    assert "main findings" not in text
    assert "relay.md" not in text
    own = (tmp_path / "results" / "own.md").read_text(encoding="utf-8")
    assert "- `mine`: Mine; 4 repetitions." in own
    assert "| areba_20 |" in own
    assert (tmp_path / "results" / "own.png").exists()
    assert not (tmp_path / "results" / "relay.md").exists()


@pytest.mark.slow
def test_the_first_page_is_one_page(page: Path) -> None:
    """A stranger reads one page: at most five figures, each with a sentence that says best and tied apart."""
    lines = page.read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("![") for line in lines) == 5
    assert len(lines) < 60
    assert any("best in 1 and tied with the best in 2 of 3 experiments" in line for line in lines)


@pytest.mark.slow
def test_the_first_page_says_where_river_wins(page: Path) -> None:
    """A comparison that names its wins alone is an advertisement."""
    text = page.read_text(encoding="utf-8")
    won = "AREBA_20 is better than the best of River's methods on 1 of 2 streams, and worse on 1 ("
    assert f"**{won}river-credit: oversampled logistic regression); RELAY is better" in text
    (row,) = [line for line in (page.parent / "river.md").read_text().splitlines() if line.startswith("| river-sine |")]
    cells = [cell.strip() for cell in row.split("|")]
    assert cells[3].endswith(", oversampled logistic regression")
    assert [re.sub("^[^,]*, | [(].*", "", cell) for cell in cells[4:6]] == ["better", "worse"]


@pytest.mark.slow
def test_the_table_shows_the_papers_figure_beside_ours(page: Path) -> None:
    """The table has our figure, the paper's, the difference, and a mark if it exceeds two standard errors."""
    lines = (page.parent / "real.md").read_text(encoding="utf-8").splitlines()
    (row,) = [line for line in lines if line.startswith("| Baseline | Credit Score ")]
    cells = [cell.strip() for cell in row.split("|")]
    assert cells[4] == "0.4807 (0.0158)"
    ours = float(cells[5].replace("*", "").split()[0])
    assert float(cells[6]) == pytest.approx(ours - 0.4807, abs=1.1e-4)
    assert cells[7] == ("yes" if abs(ours - 0.4807) > 0.1 else cells[7])
    deviation = float(cells[5].partition("(")[2].partition(")")[0])
    assert float(cells[8].replace("*", "")) == pytest.approx(abs(ours - 0.4807) / deviation, rel=0.05)
    assert cells[8].startswith("**") == (abs(ours - 0.4807) > 2 * deviation)


def test_a_figure_of_the_paper_is_held_against_single_draws() -> None:
    """With 50 repetitions, two standard errors mark a figure that one repetition in three misses as well."""
    figure = next(one for one in table_figures() if one.row == "Baseline" and one.column == "Credit Score")
    near, far = (gap(figure, figure.mean + difference, 0.04, 50) for difference in (0.04, 0.1))
    assert (near.beyond_errors, near.beyond_draws, far.beyond_errors, far.beyond_draws) == (True, False, True, True)
    assert [near.draws, far.draws] == pytest.approx([1.0, 2.5])
    fixed = [gap(figure, figure.mean + difference, 0.0, 50).draws for difference in (0.00004, 0.1)]
    assert fixed == [0.0, np.inf]


def _credit(name: str, **more: Any) -> Run:  # noqa: ANN401  (plain data)
    methods: dict[str, Any] = dict.fromkeys(("oob_single", "adaptive_cs", "sliding", "baseline"))
    methods |= {f"areba_{budget}": {"method": "areba", "budget": budget} for budget in (2, 20)}
    data = {"name": name, "title": name, "stream": {"source": "credit"}, "varies": ["weights"], "methods": methods}
    return runs_of([parse({**data, **more}, name)])[0]


@pytest.mark.slow(5)
def test_a_variant_with_dead_starts_has_a_row_without_them(tmp_path: Path) -> None:
    """The mean over living and dead networks is no network's figure; the paper's one start lived."""
    runs = [
        _credit("real-credit", group="real"),
        _credit("variant-credit-clip", group="variant", variant_of="real-credit", note="clipped"),
    ]
    store = Store(tmp_path, engine_version())
    _fill(store, runs)
    dead = store.get(runs[1], 3)
    store.put(runs[1], 3, Repetition(0 * dead.classes, dead.classes.astype(np.float32), dead.labels, 1.0))
    summaries = {run.name: summary for run in runs if (summary := summarise(run, store)) is not None}
    text = differences(Context(summaries=summaries, fisher={}, friedman={}, claims=[], folder=tmp_path))
    rows = [[cell.strip() for cell in line.split("|")] for line in text if line.startswith("| `variant-credit-clip`")]
    assert sorted(row[3] for row in rows) == ["3", "4"]
    (with_dead,), (living,) = ([row for row in rows if row[3] == count] for count in ("4", "3"))
    assert "3 of 4 starts" in living[2]
    assert float(living[7].partition(" ")[0].strip("*")) > float(with_dead[7].partition(" ")[0].strip("*")) + 0.1
    assert not [line for line in text if line.startswith("| `real-credit`") and "starts" in line]


@pytest.mark.slow
def test_curves_keep_the_points_on_both_sides_of_a_drift(tmp_path: Path) -> None:
    """In a long stream, whose curve is thinned out, the figure "before the drift" was that after the reset: zero."""
    run = _long_run()
    store = Store(tmp_path, engine_version())
    store.put(run, 0, _right_until_the_drift())
    summary = summarise(run, store)
    assert summary is not None
    learner = summary.learners["areba_20"]
    before = int(np.flatnonzero(learner.points == DRIFT_STEP)[0])
    assert learner.points[before + 1] == DRIFT_STEP + 1
    assert learner.means[2][before] == pytest.approx(1.0)
    assert learner.means[2][before + 1] == 0.0


@pytest.mark.slow
def test_a_figure_without_resets_remembers_what_was_before(tmp_path: Path) -> None:
    """The page says what the reset does: a learner that is always wrong after the drift keeps its earlier figure."""
    run = _long_run()
    store = Store(tmp_path, engine_version())
    store.put(run, 0, _right_until_the_drift())
    summary = summarise(run, store)
    assert summary is not None
    learner = summary.learners["areba_20"]
    assert learner.mean(summary.last) == 0.0
    assert 0.0 < learner.unreset[0] < 0.5
    assert learner.unfaded[0] == pytest.approx(DRIFT_STEP / LONG, abs=0.01)


@pytest.mark.slow
def test_equal_results_are_equal_and_others_are_named(tmp_path: Path) -> None:
    """`make study-quick` must say that a fresh clone reproduces the committed figures only if it does."""
    runs = _runs()[2:4]
    for folder in ("one", "two", "three"):
        store = Store(tmp_path / folder, engine_version())
        _fill(store, runs, worse=0.05 if folder == "three" else 0.0)
        summaries = [summary for run in runs if (summary := summarise(run, store)) is not None]
        write_repetitions(summaries, tmp_path / folder / "repetitions.csv")
    one, two, three = (tmp_path / folder for folder in ("one", "two", "three"))
    lines, equal = compare_repetitions(one, two)
    assert equal
    assert lines == ["56 of 56 repetitions of a method, in 2 experiments, equal the committed ones"]
    lines, equal = compare_repetitions(one, three)
    assert not equal
    assert any("sine-10-stationary" in line and "committed" in line for line in lines)


def test_a_repetition_that_is_not_committed_is_a_difference(tmp_path: Path) -> None:
    """A part whose figures are nowhere in the committed results would pass without being compared."""
    new, old = tmp_path / "new", tmp_path / "old"
    for folder, figure in ((new, "0.5"), (old, "0.5")):
        folder.mkdir()
        (folder / "relay.csv").write_text(f"run,repetition,learner,final_gmean\nsine,0,relay,{figure}\n")
    assert compare_repetitions(new, old)[1]
    (new / "relay.csv").write_text("run,repetition,learner,final_gmean\nsine,0,relay,0.5\nsine,1,relay,0.5\n")
    assert not compare_repetitions(new, old)[1]
    (new / "relay.csv").write_text("run,repetition,learner,final_gmean\nsine,0,relay,0.6\n")
    assert not compare_repetitions(new, old)[1]
    assert not compare_repetitions(new, tmp_path)[1]
    assert not compare_repetitions(tmp_path, old)[1], "nothing was compared"


@pytest.mark.parametrize(("kappa", "equal"), [("0.9", True), ("0.8", False)])
def test_the_time_of_a_repetition_is_not_compared(tmp_path: Path, kappa: str, equal: bool) -> None:
    """Another machine is faster or slower; its measures are the same."""
    new, old = tmp_path / "new", tmp_path / "old"
    for folder, row in ((new, f"{kappa},3.1"), (old, "0.9,2.5")):
        folder.mkdir()
        (folder / "field.csv").write_text(f"stream,method,seed,kappa,microseconds\nstatic-sine-1,relay,0,{row}\n")
    assert compare_repetitions(new, old)[1] == equal


def test_a_page_without_the_place_of_a_table_stays_as_it_is() -> None:
    """The rest of the page after the place would be lost."""
    assert (
        with_table("a\n<!-- one -->\nold\n<!-- end -->\nb\n", "one", "new") == "a\n<!-- one -->\nnew\n<!-- end -->\nb\n"
    )
    for page in ("a\n<!-- one -->\n<!-- end -->\nb\n", "a\nb\n"):
        with pytest.raises(ValueError, match="one"):
            with_table(page, "one", "new")
