"""A summary of the report in a few lines, counted from the same figures as its parts."""

from collections import Counter
from collections.abc import Sequence

from study.report.beyond import duels
from study.report.page import DRIFTS, Context
from study.report.sections import table_counts
from study.report.summary import RunSummary

AREBA, QBR = "areba_20", "qbr_20"


def headlines(context: Context) -> list[str]:
    """Write the summary for people who read no further."""
    lines = [
        *_paper(context),
        *_comparison(context),
        *_levels(context),
        *_recovery(context),
        *_river(context),
    ]
    return ["## In short", "", *lines, ""] if lines else []


def _paper(context: Context) -> list[str]:
    lines = []
    counts = table_counts(context)
    if counts:
        outside, asked = sum(one for one, _ in counts.values()), sum(all_ for _, all_ in counts.values())
        by = ", ".join(f"{column} {one} of {all_}" for column, (one, all_) in counts.items())
        lines.append(f"- The paper's table: {outside} of {asked} figures lie outside two standard errors ({by}).")
    checked = [finding for finding in context.findings if finding.holds is not None]
    if checked:
        holds = sum(finding.holds is True for finding in checked)
        lines.append(f"- The paper's text: {holds} of {len(checked)} statements hold here.")
    return lines


def _comparison(context: Context) -> list[str]:
    own = [
        summary
        for name, summary in context.summaries.items()
        if summary.run.experiment.group in {"stationary", "drift"}
        and name == summary.run.experiment.name
        and AREBA in summary.learners
        and summary.repetitions > 1
    ]
    if not own:
        return []
    best = {name: sum(name in context.fisher[one.run.name].best for one in own) for name in (AREBA, QBR)}
    sound = {name: sum(name in context.friedman[one.run.name].best for one in own) for name in (AREBA, QBR)}
    line = (
        f"- Synthetic streams: AREBA_20 is best, or not significantly worse, in {best[AREBA]} of {len(own)} experiments"
        f" by the paper's tests and in {sound[AREBA]} by those without sphericity; QBR_20, its predecessor, in"
        f" {best[QBR]} and in {sound[QBR]}."
    )
    return [line]


def _levels(context: Context) -> list[str]:
    lines = []
    for text, runs in (
        ("Labels 1,000 and 10,000 events late", ("latency-0", "latency-1000", "latency-10000")),
        ("With 10 % and 1 % of the labels", ("latency-0", "share-10", "share-1")),
    ):
        own = context.some(runs)
        if len(own) == len(runs):
            means = [f"{_average(summary, AREBA):.2f}" for summary in own]
            best = [max(summary.learners, key=lambda name: _average(summary, name)) for summary in own]
            lines.append(
                f"- {text}, AREBA_20's G-mean, averaged over the stream, goes from {means[0]} to {means[1]} and"
                f" {means[2]}; the best there: {best[1]} and {best[2]}."
            )
    return lines


def _average(summary: RunSummary, name: str) -> float:
    return float(summary.learners[name].averages.mean())


def _recovery(context: Context) -> list[str]:
    times: list[str] = []
    for kind in DRIFTS:
        own = context.some(f"{concept}-1-{kind}" for concept in ("sine", "circle", "sea"))
        steps = [back for one in own if (back := one.learners[AREBA].recoveries[0].steps) is not None]
        if own:
            never = f", {len(own) - len(steps)} of {len(own)} never" if len(steps) < len(own) else ""
            times.append(f"{kind} {_range(steps)}{never}")
    if not times:
        return []
    return [f"- AREBA_20 is back at 90 % of its G-mean after this many examples (1 % positive): {'; '.join(times)}."]


def _range(steps: Sequence[int]) -> str:
    return f"{min(steps):,} to {max(steps):,}" if steps else "never"


def _river(context: Context) -> list[str]:
    found = duels(context)
    if not found:
        return []
    verdicts = Counter(duel.verdict for duel in found)
    wins = [duel for duel in found if duel.verdict == "River wins"]
    named = "; ".join(f"{duel.theirs[0]} on {duel.summary.run.experiment.title}" for duel in wins)
    return [
        f"- River's models against ours on {len(found)} streams: River wins {verdicts['River wins']}"
        + (f" ({named})" if wins else "")
        + f", ours {verdicts['ours wins']}, no significant difference {verdicts['no significant difference']}."
    ]
