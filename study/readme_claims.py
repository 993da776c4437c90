"""What README says of the study, computed again from the committed figures: `python -m study.readme_claims`.

It prints each claim with the file that it follows from, and says whether README has it; the exit status is 1 if a claim
is missing. It also draws the two pictures with these comparisons, `results/leads.png` and `results/duels.png`.
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stream_app.terminal import say
from study.cli import run_without_options
from study.field.measured import Measured
from study.field.results import read_results
from study.field.streams import SLOW_STREAMS
from study.report.figures import draw
from study.report.front import (
    AREBA,
    DUELS_TITLE,
    LEADS_NOTE,
    LEADS_TITLE,
    QBR,
    RELAY_FILE,
    WIDE_INCHES,
    leads_panel,
    place_of,
    relay_above,
)
from study.report.parts import river
from study.report.tables import read_repetitions
from study.run.experiment import load_all
from study.statistics import fisher

README = Path(__file__).parents[1] / "README.md"
RESULTS = Path(__file__).with_name("results")
REPETITIONS = RESULTS / "repetitions.csv"


class Claim(NamedTuple):
    """A part of a sentence of README, and the file with the figures that it follows from."""

    text: str
    file: str


def claims() -> Sequence[Claim]:
    """Compute all claims."""
    return (leads(), long_streams(), Claim(river.sentence(rivalries()), REPETITIONS.name))


def leads() -> Claim:
    """Compute on how many synthetic streams AREBA_20 and QBR_20 lead, and RELAY ends significantly above AREBA_20."""
    found, runs = places(), list(_synthetic())
    above = relay_above(RESULTS / RELAY_FILE, runs)
    areba, qbr = found[AREBA], found[QBR]
    return Claim(
        f"of the paper's nine methods, AREBA is best in {areba['best']} and tied with the best in {areba['tied']} of"
        f" {len(runs)} experiments on synthetic streams (QBR: {qbr['best']} and {qbr['tied']}); RELAY, which this"
        f" project developed on such streams, ends significantly above AREBA in {above}",
        f"{REPETITIONS.name}, {RELAY_FILE}",
    )


def long_streams() -> Claim:
    """Compute the mean G-mean of some methods on the streams that slow methods ran on."""
    measured = Measured(read_results(RESULTS / "field.csv"))
    names = ("relay", "uob_scaled", "river_arf_under", "areba_20")
    relay, uob, forest, areba = (f"{measured.of(name, 'gmean', 0, SLOW_STREAMS).mean():.2f}" for name in names)
    return Claim(
        f"the mean G-mean is {relay} with RELAY, {uob} with UOB, {forest} with River's forest and {areba} with AREBA_20"
        " (one seed)",
        "field.csv",
    )


def places() -> Mapping[str, Counter[str]]:
    """Count by method in how many of these experiments it is best, tied and behind."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for finals in _synthetic().values():
        names = list(finals)
        comparison = fisher(np.stack([finals[name] for name in names], axis=1), names)
        for name in names:
            found[name][place_of(name, comparison)] += 1
    total = found[AREBA].total()
    return {name: counts for name, counts in found.items() if counts.total() == total}


def _synthetic() -> Mapping[str, Mapping[str, river.Doubles]]:
    """Return the G-mean at the end of each repetition by learner, of the experiments on synthetic streams."""
    groups = {one.name: one.group for one in load_all()}
    finals = read_repetitions(REPETITIONS, "gmean")
    return {run: by for run, by in finals.items() if groups.get(run) in {"stationary", "drift"} and AREBA in by}


def rivalries() -> Sequence[river.Rivalry]:
    """Return the streams on which River's methods were run."""
    titles = {one.name: one.title for one in load_all()}
    averages = read_repetitions(REPETITIONS, "average_gmean")
    found = [river.rivalry(run, titles[run], by) for run, by in averages.items() if run.startswith(river.PREFIX)]
    return [one for one in found if one is not None]


def is_in_readme(claim: Claim) -> bool:
    """Say whether README has the text of a claim; line breaks do not count."""
    return claim.text in re.sub(r"\s+", " ", README.read_text(encoding="utf-8"))


def main() -> int:
    """Print the claims, and draw the pictures; return 1 if a claim is missing."""
    found = claims()
    for claim in found:
        say(f"{'in README' if is_in_readme(claim) else 'NOT in README'} ({claim.file}): {claim.text}")
    leads_title = LEADS_TITLE.format(len(_synthetic()))
    draw([[leads_panel(places())]], RESULTS / "leads.png", leads_title, LEADS_NOTE, WIDE_INCHES)
    draw([[river.panel(rivalries())]], RESULTS / "duels.png", DUELS_TITLE, river.NOTE, WIDE_INCHES)
    return 0 if all(map(is_in_readme, found)) else 1


if __name__ == "__main__":
    sys.exit(run_without_options(__doc__, main))
