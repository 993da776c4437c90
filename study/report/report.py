"""The report: one page with five figures, pages with the details, and CSV files that contain all figures."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from stream_app.terminal import Terminal
from study.paper import statements
from study.report import beyond, differences, sections
from study.report.claims.check import check
from study.report.front import front
from study.report.page import Context
from study.report.parts import labels, rankings, recovery, river
from study.report.parts import statements as claims
from study.report.parts.method import method
from study.report.parts.statements import ORDER
from study.report.rivals.pages import write_pages
from study.report.summary import RunSummary, gmeans_of, summarise
from study.report.tables import write_final, write_repetitions, write_rows
from study.run.experiment import SEPARATE_GROUPS, Run
from study.run.store import Store, engine_version
from study.statistics import fisher, friedman

Part = Callable[[Context], list[str]]

PAGES: tuple[tuple[str, str, tuple[Part, ...]], ...] = (
    ("statements", "What the paper's text says", (claims.claims, claims.rules, claims.cases)),
    ("real", "The real data sets, and the paper's table", (sections.real_table, sections.real, rankings.of_ours)),
    ("budget", "The role of the budget", (sections.budget,)),
    ("stationary", "Streams without drift", (sections.stationary,)),
    ("drift", "Streams with drift", (sections.drift, differences.scoring)),
    ("recovery", "Recovery from drift", (recovery.recovery,)),
    (
        "differences",
        "Where our figures differ from the paper's",
        (differences.varies, differences.differences),
    ),
    ("labels", "Labels that come late, or not at all", (labels.latency, labels.shares, labels.checked)),
    ("scale", "Long, wide and rare", (beyond.scale,)),
    ("river", "River's methods", (river.river, rankings.of_rivers)),
    ("own", "Your experiments", (beyond.users_own,)),
    ("tests", "All tests", (sections.tests,)),
)
"""Pages with the details: name of the file, title, and parts; a part whose experiments were not run is empty."""

FILES = {
    "final.csv": "means and standard deviations at steps 500, 1,000, 2,500, 5,000 and the last",
    "repetitions.csv": "figures of every repetition after the last step",
    "tests.csv": "tests of all pairs of methods",
    "claims.csv": "the paper's claims and their verdicts",
    "cases.csv": "every case of every claim",
    "recovery.csv": "examples after each drift until the common level is reached",
}


def write_report(runs: Sequence[Run], store_folder: Path, results: Path, command: str, console: Terminal) -> Path:
    """Write the report of all finished repetitions and return the path of its first page.

    Raises:
        StateError: A stored repetition is damaged.
    """
    engine = engine_version()
    store = Store(store_folder, engine)
    results.mkdir(parents=True, exist_ok=True)
    found = (summarise(run, store) for run in track(runs, "reading", console=console, transient=True))
    every = [summary for summary in found if summary is not None]
    write_repetitions(every, results / "repetitions.csv")
    summaries = [summary for summary in every if summary.run.experiment.group not in SEPARATE_GROUPS]
    context = Context(
        summaries={summary.run.name: summary for summary in summaries},
        fisher={},
        friedman={},
        claims=[],
        folder=results,
    )
    for summary in summaries:
        names = list(summary.learners)
        context.fisher[summary.run.name] = fisher(summary.finals(), names)
        context.friedman[summary.run.name] = friedman(summary.finals(), names)

    def curves(summary: RunSummary, learner: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return gmeans_of(summary.run, learner, store)

    context.claims.extend(check(statements(), context.summaries, curves))
    write_final(summaries, results / "final.csv")
    _write_tests(context)
    _write_claims(context)
    _write_recoveries(context)
    last: tuple[Part, ...] = (partial(method, engine=engine, command=command),)
    pages = (*PAGES, ("method", "How the study is run and scored", last))
    written = {}
    for name, title, parts in track(pages, "writing", console=console, transient=True):
        lines = [line for part in parts for line in part(context)]
        if lines:
            _write_page(results / f"{name}.md", [f"# {title}", "", "[The report](report.md)", "", *lines])
            written[name] = title
    written |= write_pages({summary.run.name: summary for summary in every}, results)
    path = results / "report.md"
    findings = front(context)
    _write_page(path, [*INTRODUCTION, *(CONTENTS if findings else ()), *findings, *_links(written)])
    return path


INTRODUCTION = (
    "# The study",
    "",
    (
        "AREBA (Malialis, Panayiotou, Polycarpou, *Online Learning With Adaptive Rebalancing in Nonstationary"
        " Environments*, TNNLS 2020) learns from streams in which one class is rare and the world changes. *G-mean*"
        " is the geometric mean of the shares of positive and of negative examples that a method recognises: 1 is"
        " perfect, and 0 means that one class is never recognised. A method is scored on each example before it learns"
        " from it. AREBA_20 keeps at most 20 examples."
    ),
    "",
)

CONTENTS = (
    "This page has the main findings of our repetition of the paper's experiments, and of experiments beyond it.",
    "",
)


def _write_page(path: Path, lines: Sequence[str]) -> None:
    path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _links(written: Mapping[str, str]) -> list[str]:
    pages = ", ".join(f"[{title}]({name}.md)" for name, title in written.items())
    files = "; ".join(f"[{name}]({name}): {text}" for name, text in FILES.items())
    return ["## More", "", f"Details: {pages}.", "", f"All figures: {files}."]


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
            claim.text,
            claim.source,
            len(claim.findings),
            *(claim.count(verdict) for verdict in ORDER),
            claim.verdict.value,
        )
        for claim in context.claims
    ]
    columns = ("claim", "source", "cases", *(verdict.value for verdict in ORDER), "verdict")
    write_rows(columns, rows, context.folder / "claims.csv")
    cases = [
        (claim.text, finding.case.text, finding.case.experiment, finding.found, finding.verdict.value)
        for claim in context.claims
        for finding in claim.findings
    ]
    write_rows(("claim", "case", "experiment", "found", "verdict"), cases, context.folder / "cases.csv")


def _write_recoveries(context: Context) -> None:
    rows = [
        (
            name,
            learner.name,
            back.drift_step,
            f"{back.before:.6f}",
            f"{back.level:.6f}",
            *("" if value is None else value for value in (back.steps, back.low, back.high)),
        )
        for name, summary in context.summaries.items()
        for learner in summary.learners.values()
        for back in learner.recoveries
    ]
    columns = ("experiment", "learner", "drift_step", "gmean_before", "level", "examples_to_level", "low", "high")
    write_rows(columns, rows, context.folder / "recovery.csv")
