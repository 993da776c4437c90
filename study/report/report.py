"""The report: a Markdown page with tables and figures, and the CSV files that contain all figures of the page."""

import importlib.metadata
import platform
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.progress import track

from stream_app.terminal import Terminal
from study.paper import statements
from study.report import beyond, differences, sections
from study.report.claims import check
from study.report.headlines import headlines
from study.report.page import Context
from study.report.summary import summarise
from study.report.tables import markdown, write_final, write_repetitions, write_rows
from study.run.experiment import VARIES_TEXT, Run
from study.run.store import Store, engine_version
from study.run.streams import source_of
from study.statistics import fisher, friedman

PACKAGES = ("numpy", "numba", "torch", "scipy", "statsmodels", "pandas", "river", "matplotlib")

SECTIONS: tuple[Callable[[Context], list[str]], ...] = (
    sections.real_table,
    sections.statements,
    sections.budget,
    sections.stationary,
    sections.drift,
    sections.real,
    differences.varies,
    differences.differences,
    differences.scoring,
    beyond.latency,
    beyond.shares,
    beyond.recovery,
    beyond.scale,
    beyond.river,
    sections.tests,
)


def write_report(runs: Sequence[Run], store_folder: Path, results: Path, command: str, console: Terminal) -> Path:
    """Write the report of all finished repetitions and return the path of the page.

    Raises:
        StateError: A stored repetition is damaged.
    """
    engine = engine_version()
    store = Store(store_folder, engine)
    results.mkdir(parents=True, exist_ok=True)
    found = (summarise(run, store) for run in track(runs, "reading", console=console, transient=True))
    summaries = [summary for summary in found if summary is not None]
    context = Context(
        summaries={summary.run.name: summary for summary in summaries},
        fisher={},
        friedman={},
        findings=[],
        folder=results,
    )
    for summary in summaries:
        names = list(summary.learners)
        context.fisher[summary.run.name] = fisher(summary.finals(), names)
        context.friedman[summary.run.name] = friedman(summary.finals(), names)
    context.findings.extend(check(statement, context.summaries) for statement in statements())
    write_final(summaries, results / "final.csv")
    write_repetitions(summaries, results / "repetitions.csv")
    _write_tests(context)
    _write_claims(context)
    _write_recoveries(context)
    lines = [*_head(context, engine, command), *headlines(context)]
    for section in track(SECTIONS, "writing", console=console, transient=True):
        lines += section(context)
    path = results / "report.md"
    path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return path


def _head(context: Context, engine: str, command: str) -> list[str]:
    summaries = context.summaries.values()
    hours = sum(summary.seconds for summary in summaries) / 3600
    paper_hours = sum(
        summary.seconds for summary in summaries if summary.run.experiment.group not in {"beyond", "variant"}
    )
    sources = sorted({source_of(summary.run.experiment.stream) for summary in summaries} - {"synthetic"})
    versions = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    ways = sorted({summary.run.varies for summary in summaries})
    return [
        "# The study",
        "",
        (
            "The paper: K. Malialis, C. G. Panayiotou, M. M. Polycarpou, *Online Learning With Adaptive Rebalancing in"
            " Nonstationary Environments*, TNNLS 2020. Our results are shown next to it; every number here is computed"
            " from the repetitions by `python -m study report`, and is in `final.csv`, `repetitions.csv`, `tests.csv`, "
            "`claims.csv` or `recovery.csv` beside this page."
        ),
        "",
        *markdown(
            ("what", "value"),
            [
                ("engine", f"areba {engine}"),
                ("versions", f"Python {platform.python_version()}, {versions}"),
                ("machine", f"{platform.system()} {platform.machine()}"),
                ("commands", f"`python -m study run all`, then `{command}`"),
                ("seeds", "repetition r of an experiment has its file's seed + r (seed 0 in all files)"),
                ("data sets", ", ".join(sources) or "none"),
                ("time", f"{hours:.1f} h of one core in all, {paper_hours / 3600:.1f} h for the paper's experiments"),
            ],
            left=2,
        ),
        "How it is run and scored:",
        "",
        (
            "- Each repetition goes through the worker's own stages: encoded records, merge, join, all learners on"
            " the same"
            " stream, labels directly after their examples unless an experiment says otherwise."
        ),
        *(f"- A repetition of kind *{way}* varies {VARIES_TEXT[way]}." for way in ways),
        (
            "- Prequential recall, specificity and G-mean, fading factor 0.99. A class counts as 1.0 before its first"
            " example. At a known drift the sums restart, and a class counts as 0.0 until it comes again (the"
            " authors'"
            " program does the same; the running application never resets). With label noise the learner gets the noisy"
            " label, the scorer the clean one."
        ),
        (
            "- Brackets hold one standard error. **Bold**: the highest mean, and what the repeated-measures ANOVA with"
            " Fisher's least significant difference (5 %) does not tell from it. A dagger (†): the same by"
            " Friedman's test"
            " with Wilcoxon's signed-rank tests and Holm's correction, which do not assume sphericity."
        ),
        (
            "- In `final.csv` imbalance is in percent, noise is a share, and a name with `.data`, `.both` or"
            " `.weights` at"
            " its end is the same experiment with that in the place of its first way of varying."
        ),
        "",
    ]


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def _write_tests(context: Context) -> None:
    rows = []
    for name in context.summaries:
        one, two = context.fisher[name], context.friedman[name]
        for pair, p_value in one.pairs.items():
            rows.append(
                (
                    name,
                    *pair,
                    f"{one.statistic:.4g}",
                    f"{one.p_value:.3g}",
                    f"{p_value:.3g}",
                    f"{two.statistic:.4g}",
                    f"{two.p_value:.3g}",
                    f"{two.pairs[pair]:.3g}",
                )
            )
    columns = ("experiment", "learner", "against", "anova_f", "anova_p", "lsd_p", "friedman", "friedman_p", "holm_p")
    write_rows(columns, rows, context.folder / "tests.csv")


def _write_claims(context: Context) -> None:
    rows = [
        (
            finding.statement.source,
            finding.statement.text,
            finding.statement.experiment,
            finding.found,
            {True: "yes", False: "no", None: "not asked"}[finding.holds],
        )
        for finding in context.findings
    ]
    write_rows(("source", "statement", "experiment", "found", "holds"), rows, context.folder / "claims.csv")


def _write_recoveries(context: Context) -> None:
    rows = [
        (
            name,
            learner.name,
            back.drift_step,
            f"{back.before:.6f}",
            *("" if value is None else value for value in (back.steps, back.low, back.high)),
        )
        for name, summary in context.summaries.items()
        for learner in summary.learners.values()
        for back in learner.recoveries
    ]
    columns = ("experiment", "learner", "drift_step", "gmean_before", "examples_to_recover", "low", "high")
    write_rows(columns, rows, context.folder / "recovery.csv")
