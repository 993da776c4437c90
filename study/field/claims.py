"""The claims of `study/field.md`, checked by the tests that it registers."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from study.field.measured import PARTS, Measured
from study.field.methods import FAST, HALF_SUFFIX, KAPPA_SUFFIX
from study.field.ranks import Posterior, Ranking, ranking_of, signed_rank

OURS, AREBAS = "relay", ("areba_20", "areba_100_scaled")

LEARNERS = tuple(FAST)

FOR_KAPPA = (*LEARNERS, *(name + KAPPA_SUFFIX for name in LEARNERS))
"""The rows that are ranked by Kappa."""

SURE = 0.95
"""A method is better if this is probable to be so."""


class Verdict(NamedTuple):
    """What was found for a claim.

    Attributes:
        claim: Its number.
        holds: Whether all of it holds.
        found: What was found.
    """

    claim: int
    holds: bool
    found: str


def posterior(measured: Measured, one: str, two: str, measure: str, chosen: Sequence[str] | None = None) -> Posterior:
    """Return how probable it is that one row is higher than another."""
    return signed_rank(measured.values(one, measure, chosen) - measured.values(two, measure, chosen))


def ranking(measured: Measured, measure: str) -> tuple[Sequence[str], Ranking]:
    """Return the rows that are ranked by a measure, and their ranking."""
    rows = FOR_KAPPA if measure == "kappa" else LEARNERS
    return rows, ranking_of(measured.matrix(rows, measure))


def verdicts(measured: Measured) -> Iterator[Verdict]:
    """Yield the verdict on each claim."""
    yield _separated(measured)
    yield _first(measured, 2, OURS, ("roc_auc", "average_precision"))
    yield _first(measured, 3, OURS + KAPPA_SUFFIX, ("kappa",))
    yield _above_oob(measured)
    yield _above_half(measured)
    yield _each_generator(measured)
    flipping, texts = ([name for name in measured.further if name.startswith(part)] for part in ("flipping", "static"))
    if flipping:
        yield _flipping(measured, flipping)
    if texts:
        yield _texts(measured, texts)


def _separated(measured: Measured) -> Verdict:
    rows, own = ranking(measured, "gmean")
    gaps = {row: rank - own.ranks[rows.index(OURS)] for row, rank in zip(rows, own.ranks, strict=True) if row != OURS}
    nearest = min(gaps, key=lambda row: float(gaps[row]))
    return Verdict(
        1,
        bool(gaps[nearest] > own.critical_difference),
        f"the nearest average rank, of `{nearest}`, is {gaps[nearest]:+.2f} from RELAY's; the critical difference is"
        f" {own.critical_difference:.2f}",
    )


def _first(measured: Measured, claim: int, row: str, measures: Sequence[str]) -> Verdict:
    """Return whether a row has the best average rank by each of these measures."""
    holds, texts = True, []
    for measure in measures:
        rows, own = ranking(measured, measure)
        order = np.argsort(own.ranks)
        best = rows[int(order[0])]
        holds &= best == row
        texts.append(
            f"{measure.replace('_', ' ')}: `{best}` {own.ranks[order[0]]:.2f}, then `{rows[int(order[1])]}`"
            f" {own.ranks[order[1]]:.2f}"
        )
    return Verdict(claim, bool(holds), "; ".join(texts))


def _above_oob(measured: Measured) -> Verdict:
    sine = measured.parts()["generator", "sine"]
    row, holds, texts = OURS + KAPPA_SUFFIX, True, []
    own = measured.values(row, "kappa", sine).mean()
    for other in ("oob_scaled", "oob_scaled" + KAPPA_SUFFIX):
        higher, mean = posterior(measured, row, other, "kappa").higher, measured.values(other, "kappa", sine).mean()
        holds &= bool(higher >= SURE and own > mean)
        texts.append(f"higher than `{other}` with probability {higher:.3f}; on Sine {own:.3f} and {mean:.3f}")
    return Verdict(4, holds, "; ".join(texts))


def _above_half(measured: Measured) -> Verdict:
    found = {
        name: posterior(measured, name + KAPPA_SUFFIX, name + HALF_SUFFIX, "kappa").higher for name in (OURS, AREBAS[0])
    }
    text = ", ".join(f"`{name}` {higher:.3f}" for name, higher in found.items())
    return Verdict(5, min(found.values()) >= SURE, f"probability that it is better: {text}")


def _each_generator(measured: Measured) -> Verdict:
    parts = {name: chosen for (part, name), chosen in measured.parts().items() if part == PARTS[0]}
    missed = [
        f"{name}, `{other}` ({own.higher:.2f})"
        for name, chosen in parts.items()
        for other in LEARNERS
        if other != OURS and (own := posterior(measured, OURS, other, "gmean", chosen)).higher < SURE
    ]
    count = len(parts) * (len(LEARNERS) - 1)
    text = f"better in {count - len(missed)} of {count} comparisons"
    return Verdict(6, not missed, text + (f"; not against: {'; '.join(missed)}" if missed else ""))


def _flipping(measured: Measured, streams: Sequence[str]) -> Verdict:
    found = {}
    for other in AREBAS:
        values = ([measured.of_further(one, row, "gmean") for one in streams] for row in (OURS, other))
        own, others = map(np.array, values)
        found[other] = signed_rank(own - others).higher
    text = ", ".join(f"than `{name}` {higher:.3f}" for name, higher in found.items())
    return Verdict(7, min(found.values()) >= SURE, f"{len(streams)} streams; probability that it is better: {text}")


def _texts(measured: Measured, streams: Sequence[str]) -> Verdict:
    means = {row: float(np.mean([measured.of_further(one, row, "gmean") for one in streams])) for row in LEARNERS}
    first, second = sorted(means, key=lambda row: -means[row])[:2]
    return Verdict(8, first == OURS, f"`{first}` {means[first]:.3f}, then `{second}` {means[second]:.3f}")


class Better(NamedTuple):
    """A kind of streams on which one of AREBA and another method is better.

    Attributes:
        part: How the streams are grouped.
        name: The name of the group.
        higher: The learner that is better.
        lower: The other one.
        gain: The mean difference.
    """

    part: str
    name: str
    higher: str
    lower: str
    gain: float


def better_pairs(measured: Measured, measure: str) -> list[Better]:
    """Return where AREBA or another method is better: by G-mean with own classes, by Kappa with `_kappa` rows."""
    suffix = KAPPA_SUFFIX if measure == "kappa" else ""
    found = []
    for (part, name), chosen in measured.parts().items():
        for areba, other in product(AREBAS, LEARNERS):
            if other not in AREBAS:
                own = [measured.values(row + suffix, measure, chosen) for row in (other, areba)]
                difference = own[0] - own[1]
                probable, gain = signed_rank(difference), float(difference.mean())
                if probable.higher >= SURE:
                    found.append(Better(part, name, other, areba, gain))
                elif probable.lower >= SURE:
                    found.append(Better(part, name, areba, other, -gain))
    return found
