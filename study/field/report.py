"""The page of the comparison: its tables and pictures, from the committed measures of every repetition."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import ArebaError
from study.field.claims import (
    AREBAS,
    FOR_KAPPA,
    LEARNERS,
    OURS,
    Better,
    better_pairs,
    posterior,
    ranking,
    verdicts,
)
from study.field.measured import Measured
from study.field.methods import KAPPA_SUFFIX, MOA_LINES, RIVER
from study.field.ranks import ranking_of, signed_rank
from study.field.results import RESULTS, TIME, Finished, Repetition, Row, read_results
from study.field.run import SEEDS, rows_of
from study.field.scoring import Measures
from study.field.streams import SLOW_STREAMS, further_streams, streams
from study.report.drawing.pairs import Spot
from study.report.figures import PairPanel, RankPanel, draw
from study.report.tables import markdown, tables_beside, with_table

PAGE = Path(__file__).parents[1] / "results" / "field.md"
MODELS_PAGE = Path(__file__).parents[2] / "docs" / "models.md"

SHOWN = ("areba_20", "areba_100_scaled", "uob_scaled", "relay")
"""The learners in the table for users: the default, and those that are better than it on most kinds of streams."""

MEASURES = Measures._fields[:4]
"""The measures of the tests; the study's faded G-mean is shown beside them."""

HEADINGS = ("G-mean", "Kappa", "ROC AUC", "average precision")


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    return "\n".join(markdown(headings, rows, left)).strip()


def _mean_error(values: NDArray[np.float64]) -> str:
    return f"{values.mean():.3f} ({values.std(ddof=1) / np.sqrt(len(values)):.3f})"


def means(measured: Measured) -> str:
    """Return the mean of each measure over all streams, the highest one bold, and the time of an example."""
    names = [row for learner in LEARNERS for row in rows_of(learner)]
    shown = (*MEASURES, "gmean_faded")
    columns = [np.array([measured.values(row, one).mean() for row in names]) for one in shown]
    rows = []
    for number, name in enumerate(names):
        cells = []
        for own, measure in zip(columns, shown, strict=True):
            text = _mean_error(measured.values(name, measure))
            cells.append(f"**{text}**" if round(own[number], 3) == round(own.max(), 3) else text)
        rows.append([f"`{name}`", *cells, f"{measured.microseconds(name):.1f}"])
    return _table(("row", *HEADINGS, "faded G-mean", "microseconds"), rows)


def ranks(measured: Measured) -> str:
    """Return the average ranks of the seven learners by each measure, with Friedman's and Nemenyi's tests."""
    found = [ranking_of(measured.matrix(LEARNERS, one)) for one in MEASURES]
    rows = [[f"`{name}`", *(f"{own.ranks[number]:.2f}" for own in found)] for number, name in enumerate(LEARNERS)]
    rows.append(["critical difference", *(f"{own.critical_difference:.2f}" for own in found)])
    rows.append(["Friedman's chi-squared, p", *(f"{own.statistic:.0f}, {own.p_value:.1g}" for own in found)])
    return _table(("average rank", *HEADINGS), rows)


def kappa_ranks(measured: Measured) -> str:
    """Return the average ranks of the fourteen rows by Kappa, the best first."""
    names, own = ranking(measured, "kappa")
    rows = [
        [f"`{names[number]}`", f"{own.ranks[number]:.2f}", _mean_error(measured.values(names[number], "kappa"))]
        for number in np.argsort(own.ranks)
    ]
    return (
        f"Friedman's chi-squared {own.statistic:.0f}, p {own.p_value:.1g}; critical difference"
        f" {own.critical_difference:.2f}:\n\n{_table(('row', 'average rank by Kappa', 'Kappa'), rows)}"
    )


def signed_ranks(measured: Measured) -> str:
    """Return for each other learner how probable it is that RELAY is higher, the same, or lower."""
    rows = []
    for other in LEARNERS:
        if other == OURS:
            continue
        pairs = [(OURS, other, one) for one in MEASURES] + [(OURS + KAPPA_SUFFIX, other + KAPPA_SUFFIX, "kappa")]
        found = [posterior(measured, *pair) for pair in pairs]
        rows.append([f"`{other}`", *(f"{own.higher:.2f} / {own.same:.2f} / {own.lower:.2f}" for own in found)])
    return _table(("RELAY against", *HEADINGS, "Kappa, both `_kappa`"), rows)


def both(measured: Measured) -> str:
    """Return for each generator Kappa and G-mean of RELAY and OOB, with own classes and with both thresholds."""
    parts = {name: chosen for (part, name), chosen in measured.parts().items() if part == "generator"}
    names = [row for learner in (OURS, "oob_scaled") for row in rows_of(learner)]
    rows = [[name, *(_both(measured, row, chosen) for row in names)] for name, chosen in parts.items()]
    return _table(("generator: G-mean, Kappa", *(f"`{row}`" for row in names)), rows)


def _both(measured: Measured, row: str, chosen: Sequence[str]) -> str:
    return ", ".join(f"{measured.values(row, one, chosen).mean():.3f}" for one in ("gmean", "kappa"))


def by_part(measured: Measured, measure: str, suffix: str) -> str:
    """Return a measure for each generator, way of changing and share of positives, the highest mean bold."""
    rows = []
    for (part, name), chosen in measured.parts().items():
        own = [measured.values(learner + suffix, measure, chosen).mean() for learner in LEARNERS]
        best = round(max(own), 3)
        rows.append([part, name, *(f"**{one:.3f}**" if round(one, 3) == best else f"{one:.3f}" for one in own)])
    return _table(("", "", *(f"`{learner}{suffix}`" for learner in LEARNERS)), rows, 2)


def better(measured: Measured, measure: str) -> str:
    """Return where another method is better than AREBA."""
    suffix = KAPPA_SUFFIX if measure == "kappa" else ""
    found = better_pairs(measured, measure)
    rows = []
    for part, name in measured.parts():
        cells = []
        for areba in AREBAS:
            own = [one for one in found if (one.part, one.name, one.lower) == (part, name, areba)]
            own.sort(key=lambda one: -one.gain)
            cells.append(", ".join(f"`{one.higher}` {one.gain:+.3f}" for one in own) or "none")
        rows.append([part, name, *cells])
    return _table(("", "", *(f"better than `{areba}{suffix}`" for areba in AREBAS)), rows, 4)


def kinds(measured: Measured, measure: str) -> str:
    """Return for each other method the kinds of streams on which it is better than AREBA, and worse."""
    found, total = better_pairs(measured, measure), len(measured.parts())
    rows = []
    for other in LEARNERS:
        if other not in AREBAS:
            cells = [
                _kinds([one for one in found if (one.higher, one.lower) == pair], total)
                for areba in AREBAS
                for pair in ((other, areba), (areba, other))
            ]
            rows.append([f"`{other}`", *cells])
    return _table(("", *(f"{how} than `{areba}`" for areba in AREBAS for how in ("better", "worse"))), rows, 5)


def _kinds(found: Sequence[Better], total: int) -> str:
    if len(found) in (0, total):
        return "all kinds" if found else "none"
    return ", ".join(one.name for one in found)


def slow(measured: Measured) -> str:
    """Return the measures of the slow methods on the named subset, with the fast ones with the same seed."""
    names = [*LEARNERS, OURS + KAPPA_SUFFIX, AREBAS[0] + KAPPA_SUFFIX, *measured.slow]
    rows = []
    for name in names:
        own = [measured.of(name, one, 0, SLOW_STREAMS).mean() for one in MEASURES]
        time = measured.of(name, TIME, 0, SLOW_STREAMS).mean()
        rows.append([f"`{name}`", *("" if np.isnan(one) else f"{one:.3f}" for one in own), f"{time:,.1f}"])
    text = _table(("row", *HEADINGS, "microseconds"), rows)
    missing = [f"`{name}`" for name in (*RIVER, *MOA_LINES) if name not in measured.slow]
    left = f"\n\nNot finished on all six streams in time, so left out: {', '.join(missing)}." if missing else ""
    return text + left


def slow_streams(measured: Measured) -> str:
    """Return G-mean and Kappa of RELAY, AREBA_20 and the slow methods on each stream of the subset."""
    names = [OURS, OURS + KAPPA_SUFFIX, AREBAS[0], *measured.slow]
    rows = []
    for place, stream in enumerate(SLOW_STREAMS):
        cells = [[measured.of(name, one, 0, SLOW_STREAMS)[place] for one in ("gmean", "kappa")] for name in names]
        rows.append([stream, *("{:.3f}, {:.3f}".format(*own) for own in cells)])
    return _table(("G-mean, Kappa", *(f"`{name}`" for name in names)), rows)


def slow_tests(measured: Measured) -> str:
    """Return how probable it is that RELAY and AREBA_20 are higher than each slow method on the subset."""
    columns = [(own, one) for own in (OURS, AREBAS[0]) for one in ("gmean", "kappa")]
    columns += [(own + KAPPA_SUFFIX, "kappa") for own in (OURS, AREBAS[0])]
    rows = []
    for other in measured.slow:
        cells = []
        for own, one in columns:
            difference = measured.of(own, one, 0, SLOW_STREAMS) - measured.of(other, one, 0, SLOW_STREAMS)
            cells.append("{:.2f} / {:.2f} / {:.2f}".format(*reversed(signed_rank(difference))))
        rows.append([f"`{other}`", *cells])
    heads = [f"`{own}`, {HEADINGS[MEASURES.index(one)]}" for own, one in columns]
    return _table(("against", *heads), rows)


def further(measured: Measured) -> str:
    """Return G-mean with own classes, and Kappa with the threshold for Kappa, on each further stream."""
    rows = []
    for stream, seeds in measured.further.items():
        cells = []
        for name in LEARNERS:
            own = (("gmean", name), ("kappa", name + KAPPA_SUFFIX))
            cells.append(", ".join(f"{measured.of_further(stream, row, one):.3f}" for one, row in own))
        rows.append([stream, str(len(seeds)), *cells])
    return _table(("G-mean, Kappa with its threshold", "seeds", *(f"`{name}`" for name in LEARNERS)), rows)


def claims(measured: Measured) -> str:
    """Return the verdicts."""
    rows = [[str(one.claim), "holds" if one.holds else "**not met**", one.found] for one in verdicts(measured)]
    return _table(("claim", "verdict", "found"), rows, 3)


def said(measured: Measured) -> str:
    """Return how many repetitions the page has."""
    return (
        f"The page has {len(measured.streams)} streams, each with {len(measured.seeds)} of the {SEEDS} seeds that were"
        f" wanted ({', '.join(map(str, measured.seeds))}); the tests compare methods over streams."
    )


def tables(measured: Measured) -> Iterator[tuple[str, str]]:
    """Yield the tables of the page, each with its name."""
    yield "said", said(measured)
    yield "claims", claims(measured)
    yield "means", means(measured)
    yield "ranks", ranks(measured)
    yield "kappa ranks", kappa_ranks(measured)
    yield "signed ranks", signed_ranks(measured)
    yield "both", both(measured)
    yield "kinds gmean", kinds(measured, "gmean")
    yield "kinds kappa", kinds(measured, "kappa")
    yield "by part gmean", by_part(measured, "gmean", "")
    yield "by part kappa", by_part(measured, "kappa", KAPPA_SUFFIX)
    yield "better gmean", better(measured, "gmean")
    yield "better kappa", better(measured, "kappa")
    yield "slow", slow(measured)
    yield "slow streams", slow_streams(measured)
    yield "slow tests", slow_tests(measured)
    yield "further", further(measured)


def models_table(measured: Measured) -> str:
    """Return the table for users: G-mean by kind of stream, and the time of an example."""
    rows = []
    for (part, name), chosen in measured.parts().items():
        own = [measured.values(learner, "gmean", chosen).mean() for learner in SHOWN]
        rows.append([f"{part}: {name}", *(f"{one:.2f}" for one in own)])
    rows.append(["microseconds of CPU an example", *(f"{measured.microseconds(one):.1f}" for one in SHOWN)])
    return _table(("streams", *(f"`{learner}`" for learner in SHOWN)), rows)


def draw_pictures(measured: Measured, folder: Path) -> None:
    """Draw the average ranks with the critical difference, and G-mean against Kappa."""
    panels = []
    for title, measure in (("G-mean, own classes", "gmean"), ("Kappa, own classes and threshold", "kappa")):
        names, own = ranking(measured, measure)
        ranked = dict(zip(names, own.ranks.tolist(), strict=True))
        panels.append(RankPanel(title, ranked, own.critical_difference, frozenset(FOR_KAPPA[len(LEARNERS) :])))
    draw(
        [panels],
        folder / "field-ranks.png",
        f"Average ranks on {len(measured.streams)} streams",
        "lines: critical difference of Nemenyi's test; methods whose lines overlap are not separated at 5 %;"
        " hollow: threshold for Kappa",
    )
    paths = {name: [_spot(measured, row) for row in (name, name + KAPPA_SUFFIX)] for name in LEARNERS}
    draw(
        [[PairPanel("", paths, "Kappa", "G-mean")]],
        folder / "field-both.png",
        f"One model, two thresholds: means of {len(measured.streams)} streams",
        "full: own class; hollow: threshold for Kappa; bars: standard error over streams; axes do not begin at 0",
        5.4,
    )


def _spot(measured: Measured, row: str) -> Spot:
    values = [measured.values(row, one) for one in ("kappa", "gmean")]
    errors = [float(own.std(ddof=1) / np.sqrt(len(own))) for own in values]
    return Spot(float(values[0].mean()), float(values[1].mean()), *errors)


def of_file(path: Path) -> str:
    """Return the means of a reader's own file, and those of the page over the same streams and seeds.

    Further streams have a table of their own, as on the page. A method that lacks some of these repetitions is left
    out.

    Raises:
        ArebaError: The file has no repetition.
    """
    return tables_beside(
        path, read_results(path), (streams(), further_streams()), partial(_beside, read_results(), path)
    )


def _beside(committed: Finished, path: Path, own: Mapping[Repetition, Row]) -> str:
    """Return the table of a part of a file."""
    parts = {one._replace(method="") for one in own}
    both = {**committed, **own}
    rows = []
    for method in dict.fromkeys(one.method for one in both):
        found = [both[one] for one in (part._replace(method=method) for part in parts) if one in both]
        if len(found) == len(parts):
            measures = np.mean([row.measures for row in found], axis=0)[: len(MEASURES)]
            time = np.mean([row.microseconds for row in found])
            rows.append([f"`{method}`", *("" if np.isnan(one) else f"{one:.3f}" for one in measures), f"{time:.1f}"])
    table = _table(("row", *HEADINGS, "microseconds"), rows)
    return f"Means of the {len(parts)} streams and seeds of {path}:\n\n{table}"


def write_page(results: Path = RESULTS) -> None:
    """Replace the tables of the page and the table for users, and draw the pictures.

    Raises:
        ArebaError: No seed is complete.
    """
    measured = Measured(read_results(results))
    if not measured.seeds:
        raise ArebaError(f"{results}: no seed is there with every method on every stream")
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables(measured):
        text = with_table(text, name, table)
    PAGE.write_text(text, encoding="utf-8")
    models = MODELS_PAGE.read_text(encoding="utf-8")
    MODELS_PAGE.write_text(with_table(models, "field", models_table(measured)), encoding="utf-8")
    draw_pictures(measured, PAGE.parent)
