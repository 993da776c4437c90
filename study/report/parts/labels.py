"""The parts on labels that come late, that are missing at random, and that only alerts get."""

from collections.abc import Mapping, Sequence

from study.report.figures import LevelPanel, Panel
from study.report.page import Context, cell
from study.report.summary import RunSummary, mean_and_error
from study.report.tables import markdown
from study.selective.report import for_labels_page
from study.selective.results import read_results

AREBA = "areba_20"

DELAYS = {f"{delay:,}": f"latency-{delay}" for delay in (0, 10, 100, 1_000, 10_000)}
SHARES = {"100": "share-100", "50": "share-50", "10": "share-10", "1": "share-1"}
CHECKED = {
    "all labels": "share-100",
    "waits": "checked-waits",
    "corrected": "checked-corrected",
    "never": "checked-never",
}

MUCH = 0.5
"""A loss of G-mean that counts as large."""


def latency(context: Context) -> list[str]:
    """Write the part on verification latency: the G-mean by the delay of labels."""
    said = (
        "Every delay has the same stream, of at least twenty times the longest delay. Examples are scored from the"
        " first label on, by the prediction that was made on their arrival."
    )
    return _levels(context, "Late labels", DELAYS, said, "delay")


def shares(context: Context) -> list[str]:
    """Write the part on labels missing at random: the G-mean by the share of labels that arrive."""
    said = "Which labels come is drawn at random. All examples are scored, by the prediction made on their arrival."
    return _levels(context, "Labels missing at random", SHARES, said, "share")


def checked(context: Context) -> list[str]:
    """Write the part on labels that are missing not at random: only predicted positives are checked."""
    said = (
        "Labels missing not at random: each method decides alone which labels it gets. All examples are checked until"
        " there are 5,000; after that, those that the method predicts positive. What is checked gets its true label"
        " within 50 examples. All others count as negative after 1,000 examples, the time-out, unless a complaint has"
        " shown before that they are positive. *waits*: complaints come before the time-out;"
        " *corrected*: they come after it, and correct the label (`join.corrections: correct`); *never*: there are no"
        " complaints."
    )
    return [*_levels(context, "Only predicted positives are checked", CHECKED, said, "policy"), *_corrections(context)]


def _corrections(context: Context) -> list[str]:
    """Write for how many methods late corrections change nothing at all."""
    own = context.some((CHECKED["corrected"], CHECKED["never"]))
    if len(own) < 2 or own[0].numbers != own[1].numbers:
        return []
    corrected, never = (summary.learners for summary in own)
    same = [name for name in corrected if (corrected[name].averages == never[name].averages).all()]
    return [
        (
            f"- Corrections after the time-out change nothing for {len(same)} of these {len(corrected)} methods: a"
            " method with queues learns a corrected example only while it keeps it, and the others take no step back."
        ),
        "",
        *for_labels_page(read_results()),
    ]


def panels(context: Context) -> list[Panel]:
    """Return the three panels of the figure: the averaged G-mean by delay, share and policy."""
    found: list[Panel] = []
    for title, runs, x_label in (
        ("labels come late", DELAYS, "events from an example to its label"),
        ("labels are missing at random", SHARES, "labels that come, in percent"),
        ("only predicted positives are checked", CHECKED, "what happens to the others"),
    ):
        own = _own(context, runs)
        if len(own) > 1:
            names = list(next(iter(own.values())).learners)
            length = max(summary.length for summary in own.values())
            found.append(
                LevelPanel(
                    f"{title}, {length:,} examples", list(own), *_averages(own, names), x_label, "average G-mean"
                )
            )
    return found


def _own(context: Context, runs: Mapping[str, str]) -> dict[str, RunSummary]:
    return {level: context.summaries[name] for level, name in runs.items() if name in context.summaries}


def _averages(
    own: Mapping[str, RunSummary], names: Sequence[str]
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return means and standard errors of the averaged G-mean by learner and level."""
    means: dict[str, list[float]] = {}
    errors: dict[str, list[float]] = {}
    for name in names:
        found = [mean_and_error(summary.learners[name].averages) for summary in own.values()]
        means[name] = [mean for mean, _, _ in found]
        errors[name] = [error for _, _, error in found]
    return means, errors


def average_of(summary: RunSummary, name: str = AREBA) -> float:
    """Return a learner's G-mean, averaged over stream and repetitions."""
    return float(summary.learners[name].averages.mean())


def _levels(context: Context, title: str, runs: Mapping[str, str], said: str, what: str) -> list[str]:
    own = _own(context, runs)
    if len(own) < 2:
        return []
    learners = list(next(iter(own.values())).learners)
    first, last = next(iter(own.values())), list(own.values())[-1]
    sizes = "; ".join(
        f"{what} {level}: {summary.length:,} examples, {summary.repetitions} repetitions"
        for level, summary in own.items()
    )
    rows = [
        [
            name,
            *(f"{one.learners[name].mean(one.last):.3f} / {cell(one.learners[name].averages)}" for one in own.values()),
        ]
        for name in learners
    ]
    best = {level: max(learners, key=lambda name: average_of(one, name)) for level, one in own.items()}
    able = [name for name in learners if average_of(first, name) >= MUCH] or learners
    lost = {name: average_of(first, name) - average_of(last, name) for name in able}
    least, most = min(able, key=lambda name: lost[name]), max(able, key=lambda name: lost[name])
    return [
        f"## {title}",
        "",
        f"{said} {sizes}.",
        "",
        "G-mean at the end / averaged over the stream (standard error):",
        "",
        *markdown(("learner", *own), rows),
        "- Best on average: "
        + "; ".join(f"{name} at {what} {level} ({average_of(own[level], name):.3f})" for level, name in best.items())
        + ".",
        (
            f"- Of the learners with {MUCH} or more on average at first, {least} loses least ({lost[least]:.3f})"
            f" and {most} most ({lost[most]:.3f})."
        ),
        "",
    ]
