"""The parts of the report beyond the paper; a part whose experiments were not run is left out."""

from dataclasses import dataclass

from stream_app.config import LearnerSettings
from study.report.figures import CurvePanel, Panel
from study.report.page import Context, finals_table
from study.report.summary import RunSummary
from study.statistics import ALPHA


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
