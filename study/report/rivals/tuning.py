"""The page on tuning: each method with the settings that are best on the first quarter of the stream."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from study.report.figures import LevelPanel, Panel, draw
from study.report.rivals.choices import PREFIXES, Choice, Setting, choices, leader_of
from study.report.summary import RunSummary, mean_and_error
from study.report.tables import markdown

TITLES = {
    "sine": "Sine, 1 %, stationary",
    "sine-posterior": "Sine, 1 %, posterior drift",
    "cervical": "Cervical Cancer",
    "credit": "Credit Score",
}

COLUMNS = ("stream", "method", "kind", "setting", "repetitions", "average", "average_sd", "final", "final_sd")

KINDS = ("untuned", "tuned", "hindsight")


def write_tuning(summaries: Mapping[str, RunSummary], results: Path) -> bool:
    """Write `tuning.md`, `tuning.csv` and `tuning.png`; return False if nothing was run."""
    found = choices(summaries)
    if not found:
        return False
    _write_rows(found, results / "tuning.csv")
    draw(
        _panels(found),
        results / "tuning.png",
        "Untuned and tuned on the first quarter of the stream",
        "bars: standard error over the repetitions; RELAY and River's methods have fewer; RELAY has nothing to tune",
    )
    (results / "tuning.md").write_text("\n".join(_page(found)).rstrip() + "\n", encoding="utf-8")
    return True


def _of(choice: Choice, kind: str) -> Setting:
    setting: Setting = getattr(choice, kind)
    return setting


def _write_rows(found: Sequence[Choice], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for choice in found:
            for kind in KINDS:
                setting = _of(choice, kind)
                average, final = mean_and_error(setting.averages), mean_and_error(setting.finals)
                numbers = [f"{number:.4f}" for number in (*average[:2], *final[:2])]
                row = [choice.stream, choice.method, kind, setting.name, len(setting.averages), *numbers]
                writer.writerow(row)


def _panels(found: Sequence[Choice]) -> list[list[Panel]]:
    """Return a row of the paper's methods and RELAY, and a row of River's, with a panel for each stream."""
    rows: list[list[Panel]] = []
    for rivers in (False, True):
        row: list[Panel] = []
        for stream in PREFIXES:
            own = [
                one
                for one in found
                if one.stream == stream and (one.is_rivers == rivers or (rivers and one.method == "areba_20"))
            ]
            if any(one.is_rivers == rivers for one in own):
                both = {one.method: [mean_and_error(s.averages) for s in (one.untuned, one.tuned)] for one in own}
                panel = LevelPanel(
                    f"{TITLES[stream]}{': River' if rivers else ''}",
                    ["untuned", "tuned"],
                    {name: [mean for mean, _, _ in pair] for name, pair in both.items()},
                    {name: [error for _, _, error in pair] for name, pair in both.items()},
                    "",
                    "average G-mean",
                )
                row.append(panel)
        if row:
            rows.append(row)
    return rows


def _page(found: Sequence[Choice]) -> list[str]:
    lines = [
        "# Each method tuned on a prefix",
        "",
        "[The report](report.md)",
        "",
        (
            "Every method of the paper is run with five learning rates (0.1, 0.03, 0.01, 0.003, 0.001), each with"
            " features as prepared and with features standardised online (`scaler: standard`). A method gets the"
            " setting with the highest average G-mean on the first quarter of the stream, with 12 other seeds. The"
            " data sets are shuffled, so their prefix is another random quarter of the same rows. *Untuned* is the"
            " paper's learning rate without scaling. *Hindsight* is the setting that is best on the evaluated streams"
            " themselves: an upper bound that no user can reach."
        ),
        "",
        (
            "River's models are tuned on the same prefixes over their sampler (none, over, under) and over faster"
            " growth of the trees or other learning rates (`study/experiments/rivals*.yaml`); *untuned* is the model"
            " alone with River's settings, and the oversampled logistic regression. They have fewer repetitions,"
            " because they are slow; tests use the repetitions that two methods share. RELAY, a method of this project,"
            " has its defaults everywhere: no setting of RELAY was tuned."
        ),
        "",
        "![Average G-mean, untuned and tuned](tuning.png)",
        "",
    ]
    for stream in PREFIXES:
        own = [one for one in found if one.stream == stream]
        if own:
            lines += _stream(stream, own)
    return lines


def _stream(stream: str, own: Sequence[Choice]) -> list[str]:
    counts = sorted({len(one.tuned.averages) for one in own}, reverse=True)
    rows = [
        [
            one.method,
            *(f"{_text(_of(one, kind))}" for kind in KINDS),
            f"{one.untuned.finals.mean():.3f} / {one.tuned.finals.mean():.3f}",
            str(len(one.tuned.averages)),
        ]
        for one in sorted(own, key=lambda one: -float(one.tuned.averages.mean()))
    ]
    lines = [
        f"## {TITLES[stream]}",
        "",
        f"G-mean averaged over the stream (standard deviation), setting; {' or '.join(map(str, counts))} repetitions.",
        "",
        *markdown(("method", *KINDS, "at the end: untuned / tuned", "repetitions"), rows),
    ]
    groups = {"the paper's methods": [one for one in own if one.is_the_papers]}
    if len(groups["the paper's methods"]) < len(own):
        groups["all"] = list(own)
    for group, members in groups.items():
        lines += [
            f"- {kind.title()}, {group}: {_leader({one.method: _of(one, kind) for one in members})}"
            for kind in ("untuned", "tuned")
        ]
    return [*lines, ""]


def _leader(settings: Mapping[str, Setting]) -> str:
    leader = leader_of(settings)
    text = f"{leader.first} leads ({settings[leader.first].averages.mean():.3f})"
    if leader.equal:
        text += f"; no significant difference: {', '.join(leader.equal)}"
    elif not leader.untested:
        text += "; all others are worse"
    return text + (f"; too few repetitions for a test: {', '.join(leader.untested)}." if leader.untested else ".")


def _text(setting: Setting) -> str:
    mean, deviation, _ = mean_and_error(setting.averages)
    return f"{mean:.3f} ({deviation:.3f}), {setting.name}"
