"""The part on recovery: the number of examples after a drift until a learner reaches a level common to all."""

from collections.abc import Mapping, Sequence

from study.report.drawing.rows import Dot
from study.report.figures import DotPanel, Panel
from study.report.page import CONCEPTS, DRIFTS, Context
from study.report.summary import RECOVERED_SHARE, LearnerSummary, Recovery, RunSummary
from study.report.tables import markdown

AREBA = "areba_20"


def recovery(context: Context) -> list[str]:
    """Write the part on recovery."""
    rows: list[list[Panel]] = []
    runs: dict[str, RunSummary] = {}
    for noise in ("", "-noise"):
        line: list[Panel] = []
        for kind in DRIFTS:
            own = {concept: s for concept in CONCEPTS if (s := context.summaries.get(f"{concept}-1-{kind}{noise}"))}
            if own:
                line.append(_panel(f"{kind}{', noise' if noise else ''}", own))
                runs.update({f"{concept} {kind}{noise}": summary for concept, summary in own.items()})
        rows.append(line)
    if not runs:
        return []
    learners = list(next(iter(runs.values())).learners)
    table = [
        [title, f"{_back(s, learners[0]).level:.2f}", *(_text(s.learners[name]) for name in learners)]
        for title, s in runs.items()
    ]
    return [
        "## Time to recover",
        "",
        (
            "Labelled examples after the drift until the mean G-mean, whose sums restart at the drift, reaches the"
            f" common level: {RECOVERED_SHARE:.0%} of the G-mean that the best method had before the drift. In"
            " brackets, and as lines, a 95 % interval over resampled repetitions. *never*, and a hollow mark: not"
            " within the stream. The level is the same for all methods of a stream, because a share of a method's"
            " own G-mean would reward methods that knew little. We count examples, and not the area between curve"
            " and level, because a count answers a user's question: how many labels until the model is useful again?"
        ),
        "",
        *context.figure("recovery", "Examples after a drift until the common level is reached", rows, note=NOTE),
        *markdown(("stream and drift", "level", *learners), table),
        *_conclusions(runs, learners),
        "",
    ]


NOTE = (
    "1 % positive; circle: Sine, square: Circle, triangle: Sea; lines: 95 % interval over resampled repetitions;"
    " hollow, after the dotted line: not within the stream"
)


def _panel(title: str, own: Mapping[str, RunSummary]) -> DotPanel:
    names = list(next(iter(own.values())).learners)
    summary = next(iter(own.values()))
    return DotPanel(
        title,
        {name: {concept: _dot(s.learners[name]) for concept, s in own.items()} for name in names},
        CONCEPTS,
        "examples after the drift",
        float(summary.length - _back(summary, names[0]).drift_step),
    )


def _back(summary: RunSummary, name: str) -> Recovery:
    return summary.learners[name].recoveries[0]


def _dot(learner: LearnerSummary) -> Dot:
    back = learner.recoveries[0]
    return Dot(back.steps, back.low, back.high)


def _text(learner: LearnerSummary) -> str:
    back = learner.recoveries[0]
    if back.steps is None:
        return "never"
    return f"{back.steps:,}" + (f" ({back.low:,}-{back.high:,})" if back.low is not None else "")


def _conclusions(runs: Mapping[str, RunSummary], learners: Sequence[str]) -> list[str]:
    lines = [f"- {kind.title()} drift: {AREBA} reaches the level {reached(_of(runs, kind))}." for kind in DRIFTS]
    counted = {name: sum(_back(s, name).steps is not None for s in runs.values()) for name in learners}
    order = sorted(learners, key=lambda name: -counted[name])
    lines.append(
        f"- Of {len(runs)} cases, the level was reached in: "
        + ", ".join(f"{counted[name]} by {name}" for name in order)
        + "."
    )
    first: dict[str, int] = {}
    for summary in runs.values():
        times = {name: steps for name in learners if (steps := _back(summary, name).steps) is not None}
        if times:
            winner = min(times, key=lambda name: times[name])
            first[winner] = first.get(winner, 0) + 1
    ranks = sorted(first.items(), key=lambda item: -item[1])
    return [*lines, f"- First to reach it: {', '.join(f'{name} in {count}' for name, count in ranks)}."]


def _of(runs: Mapping[str, RunSummary], kind: str) -> list[RunSummary]:
    return [summary for title, summary in runs.items() if f" {kind}" in title]


def reached(summaries: Sequence[RunSummary]) -> str:
    """Return in words how many examples AREBA_20 needs on these streams."""
    steps = [back for one in summaries if (back := _back(one, AREBA).steps) is not None]
    missed = len(summaries) - len(steps)
    if not steps:
        return f"in none of {len(summaries)} streams"
    text = f"after {' to '.join(dict.fromkeys(f'{step:,}' for step in (min(steps), max(steps))))} examples"
    return text + (f", and not at all in {missed} of {len(summaries)} streams" if missed else "")
