"""Figures that rate scores, not classes, on the real data sets."""

from collections.abc import Sequence

from study.report.page import Context, cell
from study.report.summary import RunSummary
from study.report.tables import markdown
from study.run.ranking import ALERTS_PER_POSITIVE, BLOCK_EXAMPLES, RANKINGS

HEADINGS = ("average precision", "recall at the budget", "Brier score")


def of_ours(context: Context) -> list[str]:
    """Write the figures of the experiments on real data sets."""
    return _rankings(context, "real-")


def of_rivers(context: Context) -> list[str]:
    """Write the figures of the experiments in which River's methods see real data sets."""
    return _rankings(context, "river-")


def _rankings(context: Context, prefix: str) -> list[str]:
    own = [
        summary
        for name, summary in context.summaries.items()
        if name.startswith(prefix) and name == summary.run.experiment.name and _rated(summary)
    ]
    if not own:
        return []
    lines = [
        "## Scores: average precision, recall at an alert budget, Brier score",
        "",
        (
            "G-mean rates classes. These figures rate the scores on arrival, over the whole stream. *Average precision*"
            " is the area below the precision-recall curve; chance has the share of positives. *Recall at the budget*:"
            f" a team can check {ALERTS_PER_POSITIVE:g} examples for each positive one that the set has; it checks the"
            f" highest scores of each {BLOCK_EXAMPLES:,} examples. *Brier score*: the mean squared error of the score"
            " as a probability; lower is better. The row *share* has the figures of a constant score, equal to the"
            " share of positives. The scores of methods that balance the classes are no probabilities, which the Brier"
            " score shows."
        ),
        "",
    ]
    for summary in own:
        share = summary.positive_percent / 100.0
        rows = [["share", f"{share:.4f}", f"{min(1.0, ALERTS_PER_POSITIVE * share):.4f}", f"{share * (1 - share):.4f}"]]
        rows += [[name, *_cells(summary, name)] for name in summary.learners]
        title = f"{summary.run.experiment.title}, {summary.repetitions} repetitions"
        lines += [f"### Scores on {title}", "", *markdown(("learner", *HEADINGS), rows)]
        lines += [_leaders(summary), ""]
    return lines


def _rated(summary: RunSummary) -> bool:
    return all(learner.rankings is not None for learner in summary.learners.values())


def _values(summary: RunSummary, name: str) -> Sequence[float]:
    found = summary.learners[name].rankings
    return [] if found is None else found.mean(axis=0).tolist()


def _cells(summary: RunSummary, name: str) -> list[str]:
    found = summary.learners[name].rankings
    return [] if found is None else [cell(found[:, column]) for column in range(len(RANKINGS))]


def _leaders(summary: RunSummary) -> str:
    means = {name: _values(summary, name) for name in summary.learners}
    first, second = (max(means, key=lambda name: means[name][column]) for column in (0, 1))
    third = min(means, key=lambda name: means[name][2])
    gmean = max(means, key=lambda name: summary.learners[name].mean(summary.last))
    return (
        f"Highest average precision: {first}; highest recall at the budget: {second}; lowest Brier score: {third};"
        f" highest G-mean at the end: {gmean}."
    )
