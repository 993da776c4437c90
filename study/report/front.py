"""The first page of the report: five figures, each with a sentence; everything else is on linked pages."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from study.relay.verdicts import BETTER, learners_of, read_results
from study.report.claims.intervals import Verdict
from study.report.figures import BarPanel, CurvePanel, Panel
from study.report.page import CONCEPTS, DRIFTS, Context
from study.report.parts import labels, river
from study.report.parts.recovery import reached
from study.report.parts.statements import counts
from study.report.rivals.relay import pair, verdicts_of
from study.report.sections import real_figure, table_counts
from study.report.summary import RECOVERED_SHARE, RunSummary
from study.statistics import Comparison

AREBA, QBR = "areba_20", "qbr_20"

PLACES = ("best", "tied", "behind")

WIDE_INCHES = 6.0

LEADS_TITLE = "Which of the paper's methods leads on {} synthetic streams"
LEADS_NOTE = "from left to right, darker to paler: best, tied with the best, behind"
DUELS_TITLE = "The best of River's methods, AREBA_20 and RELAY"

RELAY_FILE = "relay.csv"


def front(context: Context) -> list[str]:
    """Write the five parts; a part whose experiments were not run is left out."""
    parts = [part for make in (_leads, _drift, _real, _labels, _river) if (part := make(context))]
    return [line for part in parts for line in part]


def place_of(name: str, comparison: Comparison) -> str:
    """Return `best` for the highest mean that is significantly above all others, `tied`, or `behind`."""
    if name not in comparison.best:
        return "behind"
    return "best" if len(comparison.best) == 1 else "tied"


def synthetic(context: Context) -> list[RunSummary]:
    """Return the experiments on synthetic streams that compare all methods."""
    return [
        summary
        for name, summary in context.summaries.items()
        if summary.run.experiment.group in {"stationary", "drift"}
        and name == summary.run.experiment.name
        and AREBA in summary.learners
        and summary.repetitions > 1
    ]


def places(context: Context, tests: Mapping[str, Comparison]) -> dict[str, Counter[str]]:
    """Count by learner in how many experiments on synthetic streams it is best, tied and behind."""
    own = synthetic(context)
    names = [name for name in (own[0].learners if own else ()) if all(name in summary.learners for summary in own)]
    return {name: Counter(place_of(name, tests[summary.run.name]) for summary in own) for name in names}


def relay_above(file: Path, runs: Iterable[str]) -> int | None:
    """Return on how many runs RELAY is significantly above AREBA_20 at the end, corrected for all runs of `relay.csv`.

    None: a run is not in the file, of which `make study-quick` computes a part.
    """
    scores, learners = read_results(file), list(learners_of(file))
    found = verdicts_of(pair(scores, learners.index(AREBA), learners.index("relay")), "final")
    asked = list(runs)
    return sum(found[run].result == BETTER for run in asked) if found.keys() >= set(asked) else None


def leads_panel(found: Mapping[str, Counter[str]]) -> BarPanel:
    """Return the figure: in how many experiments each method is best, tied and behind."""
    order = sorted(found, key=lambda name: [-found[name][place] for place in PLACES])
    return BarPanel("", {name: [found[name][place] for place in PLACES] for name in order}, PLACES, "experiments")


def _leads(context: Context) -> list[str]:
    found = places(context, context.fisher)
    if not found:
        return []
    panel = leads_panel(found)
    bars, total, sound = panel.counts, sum(panel.counts[AREBA]), places(context, context.friedman)
    panels: list[list[Panel]] = [[panel]]
    file, relay = context.folder / RELAY_FILE, ""
    above = relay_above(file, [summary.run.name for summary in synthetic(context)]) if file.exists() else None
    if above is not None:
        relay = (
            f" RELAY, which this project developed on such streams, is significantly above AREBA_20 in {above} of them"
            " ([RELAY and AREBA_20 on 55 runs](relay.md))."
        )
    return [
        (
            f"**Of the paper's methods, AREBA_20 is best in {bars[AREBA][0]} and tied with the best in"
            f" {bars[AREBA][1]} of {total} experiments on synthetic streams**; QBR_20, its predecessor, is best in"
            f" {found[QBR]['best']} and tied in"
            f" {found[QBR]['tied']}. *Best* is the highest mean, significantly above every other method; *tied* is not"
            f" significantly below the highest mean (Friedman's and Wilcoxon's tests, which assume less, find"
            f" {sound[AREBA]['best']} and {sound[AREBA]['tied']}; {sound[QBR]['best']} and {sound[QBR]['tied']})."
            f"{relay}"
            if QBR in found
            else f"**Of the paper's methods, AREBA_20 is best in {bars[AREBA][0]} and tied with the best in"
            f" {bars[AREBA][1]} of {total} experiments on synthetic streams.**"
        ),
        "",
        *context.figure("leads", LEADS_TITLE.format(total), panels, note=LEADS_NOTE, width_inches=WIDE_INCHES),
    ]


def _drift(context: Context) -> list[str]:
    own = context.some(f"sine-1-{kind}" for kind in DRIFTS)
    if not own:
        return []
    said = []
    for kind in DRIFTS:
        streams = context.some(f"{concept}-1-{kind}" for concept in CONCEPTS)
        said.append(f"{kind} drift, {reached(streams)}")
    panels: list[Panel] = [
        CurvePanel(f"{summary.run.experiment.stream.drift} drift", summary, show_level=True) for summary in own
    ]
    return [
        (
            f"**After a drift, AREBA_20 reaches {RECOVERED_SHARE:.0%} of the G-mean that the best method had before"
            f" it**: {'; '.join(said)} (Sine, Circle and Sea with 1 % positive examples). A prior drift changes how"
            " frequent a class is, a likelihood drift where its examples lie, and a posterior drift which class a"
            " region has. Sums restart at the drift, so a part of these examples is the wait for the first example of"
            " the rarer class: more than half of them after a prior or likelihood drift ([a classifier that never"
            " errs](../faultless.md))."
        ),
        "",
        *context.figure(
            "after-drift",
            "Sine, 1 % positive, a drift at step 2,500",
            [panels],
            note=(
                f"dotted: {RECOVERED_SHARE:.0%} of the best G-mean before the drift;"
                " sums restart at the drift, so each curve is 0 until both classes have come"
            ),
        ),
    ]


def _real(context: Context) -> list[str]:
    figure = real_figure(context)
    if not figure:
        return []
    table = table_counts(context)
    found = counts(context)
    total = sum(found.values())
    text = (
        f" of {total} claims of its text {found[Verdict.HOLDS]} hold here, {found[Verdict.FAILS]} fail, and"
        f" {found[Verdict.UNDECIDED]} are undecided ([claims](statements.md)); some that fail do so because of a choice"
        " of the study ([other choices](../other_choices.md))"
        if total
        else ""
    )
    return [
        (
            f"**{table.compared - table.outside} of the {table.compared} figures in the paper's table lie within two"
            f" standard errors of ours**, of which {table.perfect} are 1.0000 in both and cannot differ"
            f" ([table](real.md), [what was tried](differences.md));{text}."
        ),
        "",
        *figure[:2],
    ]


def _labels(context: Context) -> list[str]:
    panels = labels.panels(context)
    if not panels:
        return []
    said = []
    for runs, text in (
        (
            ("latency-0", "latency-1000", "latency-10000"),
            (
                "{0:.2f} with labels at once to {1:.2f} with labels 1,000"
                " events late and {2:.2f} with labels 10,000 events late"
            ),
        ),
        (
            ("share-100", "share-10", "share-1"),
            "{0:.2f} with all labels to {1:.2f} with a tenth and {2:.2f} with a hundredth of them",
        ),
        (
            ("share-100", "checked-waits", "checked-never"),
            (
                "{0:.2f} to {1:.2f} if only predicted positives are checked"
                " and the others' labels come late, and {2:.2f} if the others always count as negative"
            ),
        ),
    ):
        own = context.some(runs)
        if len(own) == len(runs):
            figures = text.format(*(labels.average_of(summary) for summary in own))
            said.append(f"over {own[0].length:,} examples from {figures}")
    return [
        (
            f"**Labels decide**: AREBA_20's average G-mean on Sine with 1 % positive examples goes {'; '.join(said)}"
            " ([details](labels.md))."
            if said
            else "**Labels decide** ([details](labels.md))."
        ),
        "",
        *context.figure("labels", "Labels that come late, or not at all", [panels]),
    ]


def _river(context: Context) -> list[str]:
    found = river.rivalries(context)
    if not found:
        return []
    panels: list[list[Panel]] = [[river.panel(found)]]
    tuned = ", [each method tuned](tuning.md)" if (context.folder / "tuning.md").exists() else ""
    return [
        (
            f"**{river.sentence(found)}**: by the average G-mean over the stream, with River's own settings"
            f" ([all methods](river.md){tuned}). A stream with fewer than"
            f" {river.LEAST_REPETITIONS} repetitions is shown and not counted. RELAY is a method of this"
            " project ([RELAY and AREBA_20 on 55 runs](relay.md))."
        ),
        "",
        *context.figure(
            "duels",
            DUELS_TITLE,
            panels,
            note=river.NOTE,
            width_inches=WIDE_INCHES,
        ),
    ]
