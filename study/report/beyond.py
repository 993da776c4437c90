"""The parts of the report beyond the paper; a part whose experiments were not run is left out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stream_app.config import LearnerSettings
from study.report.figures import CurvePanel, LevelPanel, Panel
from study.report.page import CONCEPTS, DRIFTS, Context, finals_table
from study.report.summary import LOWEST_BEFORE, LearnerSummary, RunSummary, mean_and_error
from study.report.tables import markdown
from study.statistics import ALPHA

MUCH = 0.5
"""A loss of G-mean that counts as large."""


def latency(context: Context) -> list[str]:
    """Write the part on verification latency: the G-mean by the delay of labels."""
    own = {
        level: context.summaries[f"latency-{level}"]
        for level in (0, 10, 100, 1_000, 10_000)
        if f"latency-{level}" in context.summaries
    }
    return _levels(context, "Verification latency", "latency", own, "events from an example to its label", "latency")


def shares(context: Context) -> list[str]:
    """Write the part on missing labels: the G-mean by the share of labels that arrive."""
    runs = {100: "latency-0", 50: "share-50", 10: "share-10", 1: "share-1"}
    own = {level: context.summaries[name] for level, name in runs.items() if name in context.summaries}
    return _levels(context, "Share of labels that come", "shares", own, "labels that come, in percent", "share")


def _levels(
    context: Context, title: str, name: str, own: Mapping[int, RunSummary], x_label: str, what: str
) -> list[str]:
    if len(own) < 2:
        return []
    learners = list(next(iter(own.values())).learners)
    ends, averages = _by_level(own, learners)
    levels = [f"{level:,}" for level in own]
    panels: list[Panel] = [
        LevelPanel("at the end", levels, *ends, x_label, "G-mean"),
        LevelPanel("averaged over the stream", levels, *averages, x_label, "G-mean"),
    ]
    first, last = next(iter(own)), list(own)[-1]
    means = averages[0]
    best = {level: max(learners, key=lambda n: means[n][k]) for k, level in enumerate(own)}
    lost = {learner: means[learner][0] - means[learner][-1] for learner in learners}
    able = [learner for learner in learners if means[learner][0] >= MUCH] or learners
    least, most = min(able, key=lambda n: lost[n]), max(able, key=lambda n: lost[n])
    summary = own[first]
    rows = [
        [
            learner,
            *(f"{end:.3f} / {average:.3f}" for end, average in zip(ends[0][learner], means[learner], strict=True)),
        ]
        for learner in learners
    ]
    return [
        f"## {title}",
        "",
        (
            f"{summary.run.experiment.title}; {summary.repetitions} repetitions. All examples are scored, by the"
            f" prediction"
            " that was made on their arrival."
        ),
        "",
        *context.figure(name, title, [panels]),
        "G-mean at the end / averaged over the stream:",
        "",
        *markdown(("learner", *levels), rows),
        "- Best on average: "
        + "; ".join(
            f"{winner} at {what} {level:,} ({means[winner][k]:.3f})" for k, (level, winner) in enumerate(best.items())
        )
        + ".",
        (
            f"- From {what} {first:,} to {last:,} AREBA_20 goes from {means['areba_20'][0]:.3f} to"
            f" {means['areba_20'][-1]:.3f} on average, and from {ends[0]['areba_20'][0]:.3f} to"
            f" {ends[0]['areba_20'][-1]:.3f} at the end."
        ),
        (
            f"- Of the learners with {MUCH} or more on average at first, {least} loses least ({lost[least]:.3f})"
            f" and {most} most ({lost[most]:.3f})."
        ),
        "",
    ]


Series = tuple[dict[str, list[float]], dict[str, list[float]]]


def _by_level(own: Mapping[int, RunSummary], learners: Sequence[str]) -> tuple[Series, Series]:
    ends: Series = ({}, {})
    averages: Series = ({}, {})
    for learner in learners:
        for series, pick in ((ends, True), (averages, False)):
            column = []
            for summary in own.values():
                found = summary.learners[learner]
                mean, _, error = mean_and_error(found.figures[summary.last][2] if pick else found.averages)
                column.append((mean, error))
            series[0][learner] = [mean for mean, _ in column]
            series[1][learner] = [error for _, error in column]
    return ends, averages


def recovery(context: Context) -> list[str]:
    """Write the part on recovery: the number of examples after a drift until the G-mean has recovered."""
    panels: list[list[Panel]] = []
    rows: list[list[str]] = []
    runs: dict[str, RunSummary] = {}
    for noise in ("", "-noise"):
        line: list[Panel] = []
        for concept in CONCEPTS:
            own = {kind: s for kind in DRIFTS if (s := context.summaries.get(f"{concept}-1-{kind}{noise}"))}
            if own:
                line.append(_recovery_panel(f"{concept.title()}{', noise' if noise else ''}", own))
                runs.update({f"{concept} {kind}{noise}": summary for kind, summary in own.items()})
        panels.append(line)
    if not runs:
        return []
    learners = list(next(iter(runs.values())).learners)
    for title, summary in runs.items():
        rows.append([title, *(_recovery_text(summary.learners[name]) for name in learners)])
    return [
        "## Time to recover",
        "",
        (
            "Labelled examples after the drift until the mean G-mean (with sums that restart at the drift) is back at"
            " 90 % of its value before; in brackets, and as bars, a 95 % interval over resampled repetitions. *never*,"
            " and a hollow triangle at the stream's end: not within the stream; *-*, and no mark: the G-mean"
            " before was below 0.1, there is nothing to recover."
        ),
        "",
        *context.figure("recovery", "Examples to recover after a drift", panels),
        *markdown(("stream and drift", *learners), rows),
        *_recovery_conclusions(runs, learners),
        "",
    ]


def _recovery_panel(title: str, own: Mapping[str, RunSummary]) -> Panel:
    names = list(next(iter(own.values())).learners)
    values: dict[str, list[float]] = {name: [] for name in names}
    errors: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in names}
    beyond: dict[str, list[bool]] = {name: [] for name in names}
    for name in names:
        for summary in own.values():
            back = summary.learners[name].recoveries[0]
            steps = float(back.steps or summary.length - back.drift_step) if back.before >= LOWEST_BEFORE else math.nan
            values[name].append(steps)
            beyond[name].append(back.steps is None and back.before >= LOWEST_BEFORE)
            errors[name][0].append(steps - back.low if back.low is not None else 0.0)
            errors[name][1].append(back.high - steps if back.high is not None else 0.0)
    return LevelPanel(
        title,
        list(own),
        values,
        {name: [[max(0.0, size) for size in side] for side in sides] for name, sides in errors.items()},
        "drift",
        "examples to recover",
        logarithmic=True,
        connected=False,
        beyond=beyond,
        limits=(25.0, 3_000.0),
    )


def _recovery_text(learner: LearnerSummary) -> str:
    back = learner.recoveries[0]
    if back.before < LOWEST_BEFORE:
        return "-"
    if back.steps is None:
        return "never"
    return f"{back.steps:,}" + (f" ({back.low:,}-{back.high:,})" if back.low is not None else "")


def _recovery_conclusions(runs: Mapping[str, RunSummary], learners: Sequence[str]) -> list[str]:
    asked = [(title, name, s.learners[name].recoveries[0]) for title, s in runs.items() for name in learners]
    able = [item for item in asked if item[2].before >= LOWEST_BEFORE]
    never = [f"{name} ({title})" for title, name, back in able if back.steps is None]
    lines = []
    for kind in DRIFTS:
        mine = {title: s.learners["areba_20"].recoveries[0].steps for title, s in runs.items() if f" {kind}" in title}
        times = [steps for steps in mine.values() if steps is not None]
        range_ = f"{min(times):,} to {max(times):,} examples" if times else "never"
        missed = f"; not in {len(mine) - len(times)} of {len(mine)} cases" if len(times) < len(mine) else ""
        lines.append(f"- {kind.title()} drift: AREBA_20 is back after {range_}{missed}.")
    fastest: dict[str, int] = {}
    for title in runs:
        times_of = {name: back.steps for t, name, back in able if t == title and back.steps is not None}
        if times_of:
            first = min(times_of, key=lambda name: times_of[name])
            fastest[first] = fastest.get(first, 0) + 1
    order = ", ".join(f"{name} in {count}" for name, count in sorted(fastest.items(), key=lambda item: -item[1]))
    lines.append(f"- First back (of those with a G-mean of 0.1 or more before): {order} of {len(runs)} cases.")
    lines.append(f"- {len(never)} of {len(able)} pairs of learner and drift were not back within the stream.")
    return lines


def scale(context: Context) -> list[str]:
    """Write the part on long, wide, rare and recurring streams."""
    names = ("long-sine", "long-recurring", "rare-sine", "wide-sine")
    own = context.some(names)
    if not own:
        return []
    panels: list[Panel] = [CurvePanel(summary.run.experiment.title.split(":")[0], summary) for summary in own]
    lines = [
        "## Long and wide",
        "",
        *(
            f"- `{s.run.name}`: {s.run.experiment.title}; {s.repetitions} repetitions,"
            f" {s.seconds / s.repetitions:.0f} s each on one core with all learners."
            for s in own
        ),
        "",
        *context.figure("scale", "Long, recurring, rare, wide", [panels[:2], panels[2:]]),
        *finals_table(context, own, [s.run.name for s in own]),
    ]
    for summary in own:
        means = {name: learner.mean(summary.last) for name, learner in summary.learners.items()}
        averages = {name: float(learner.averages.mean()) for name, learner in summary.learners.items()}
        first, steady = max(means, key=lambda n: means[n]), max(averages, key=lambda n: averages[n])
        lines.append(
            f"- `{summary.run.name}`: highest at the end {first} ({means[first]:.3f}), on average {steady}"
            f" ({averages[steady]:.3f}); AREBA_20 {means['areba_20']:.3f} and {averages['areba_20']:.3f}."
        )
    return [*lines, ""]


@dataclass(frozen=True, slots=True)
class Duel:
    """River's best model against our best model, chosen by their means.

    Attributes:
        summary: The run.
        theirs: Name and mean of River's model.
        ours: Name and mean of our model.
        p_value: The p-value of the paired t-test.
    """

    summary: RunSummary
    theirs: tuple[str, float]
    ours: tuple[str, float]
    p_value: float

    @property
    def verdict(self) -> str:
        """Which side wins."""
        if self.p_value >= ALPHA:
            return "no significant difference"
        return "River wins" if self.theirs[1] > self.ours[1] else "ours wins"


def duels(context: Context) -> list[Duel]:
    """Return a duel for each stream that River's models were run on."""
    found = []
    for name, summary in context.summaries.items():
        if name.startswith("river-"):
            means = {learner: one.mean(summary.last) for learner, one in summary.learners.items()}
            methods = summary.run.experiment.methods
            theirs, ours = (
                max((one for one in means if _is_rivers(methods[one]) == own), key=lambda one: means[one])
                for own in (True, False)
            )
            pairs = context.fisher[name].pairs
            p_value = pairs.get((theirs, ours), pairs.get((ours, theirs), 1.0))
            found.append(Duel(summary, (theirs, means[theirs]), (ours, means[ours]), p_value))
    return found


def _is_rivers(settings: LearnerSettings) -> bool:
    return settings.method.startswith("study.river_models")


def river(context: Context) -> list[str]:
    """Write the part on River's models, which were run on the same streams."""
    found = duels(context)
    if not found:
        return []
    own = [duel.summary for duel in found]
    panels: list[Panel] = [CurvePanel(summary.run.experiment.title, summary) for summary in own]
    lines = [
        f"- {duel.summary.run.experiment.title}, {duel.summary.repetitions} repetitions: **{duel.verdict}**:"
        f" {duel.theirs[0]} {duel.theirs[1]:.3f}, {duel.ours[0]} {duel.ours[1]:.3f} (p = {duel.p_value:.2g})."
        for duel in found
    ]
    return [
        "## What a user would pick instead: River",
        "",
        (
            "River's models as learners of the same task, with River's own settings: adaptive random forest (arf),"
            " Hoeffding adaptive tree (hat), leveraging bagging (lb), logistic regression after a running standardiser"
            " with the rarer class oversampled (lr_over) or the other undersampled (lr_under). The best of River's and"
            " of ours are chosen by their means, so p is that of the luckiest pair on both sides. Of 5 repetitions the"
            " signed-rank tests find no difference, so a dagger says nothing there."
        ),
        "",
        *context.figure("river", "River's models beside ours", [panels[k : k + 3] for k in range(0, len(panels), 3)]),
        *finals_table(context, own, [summary.run.name.removeprefix("river-") for summary in own]),
        *lines,
        *_standardised(context),
        "",
    ]


def _standardised(context: Context) -> list[str]:
    """Write how our learners do with standardised features, which River's logistic regression computes itself."""
    lines = []
    for source in ("cervical", "credit"):
        summary = context.summaries.get(f"variant-{source}-standard-shuffled")
        if summary is not None and f"river-{source}" in context.summaries:
            means = {name: learner.mean(summary.last) for name, learner in summary.learners.items()}
            best = max(means, key=lambda name: means[name])
            lines.append(
                f"- The logistic regressions standardise their features. With features of {source} standardised"
                f" beforehand the best of ours is {best}, {means[best]:.3f} (`{summary.run.name}`)."
            )
    return lines
