"""The parts of the report beyond the paper; a part whose experiments were not run is left out."""

from study.report.figures import CurvePanel, Panel
from study.report.page import Context, finals_table
from study.run.experiment import load_all


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
    lines += [
        (
            "Gradients are limited, which holds baseline and adaptive_cs back on long streams"
            " ([what the limit costs](../../docs/study.md#outliers-and-what-the-limit-of-gradients-costs))."
        ),
        "",
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


def users_own(context: Context) -> list[str]:
    """Write the part on experiments that are in a folder of the user, not in the study's."""
    known = {experiment.name for experiment in load_all()}
    own = [summary for summary in context.summaries.values() if summary.run.experiment.name not in known]
    if not own:
        return []
    panels: list[Panel] = [CurvePanel(summary.run.name, summary) for summary in own]
    return [
        "## Your experiments",
        "",
        *(f"- `{s.run.name}`: {s.run.experiment.title}; {s.repetitions} repetitions." for s in own),
        "",
        *context.figure("own", "Your experiments", [panels[start : start + 2] for start in range(0, len(panels), 2)]),
        *finals_table(context, own, [summary.run.name for summary in own]),
    ]
