"""The settings that each method gets on the first quarter of a stream, and its figures with and without them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from study.report.rivals.colours import family_of
from study.report.summary import LearnerSummary, RunSummary
from study.statistics import ALPHA, paired_difference

PREFIXES = {
    "sine": "prefix-sine",
    "sine-posterior": "prefix-sine",
    "cervical": "prefix-cervical",
    "credit": "prefix-credit",
}
"""The stream on which settings are chosen, by the stream on which they are judged."""

PAPER_RATES = {"sine": "0.01", "sine-posterior": "0.01", "cervical": "0.1", "credit": "0.01"}
"""The learning rates of the paper; it does not scale features online."""

ALONE = "alone"
"""A River model without a sampler and with River's settings, or RELAY with its defaults."""

UNTUNED_LOGISTIC = "over"
"""River's logistic regression has always been run in a sampler; the study had it oversampled."""

FEWEST_TESTED = 5
"""Fewer shared repetitions tell almost nothing."""

Doubles = NDArray[np.float64]
Candidates = Mapping[str, Mapping[str, LearnerSummary]]
"""Summaries by method and setting."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A method with one of its settings.

    Attributes:
        name: The setting in words.
        averages: float64 `[R]`, G-mean averaged over the stream.
        finals: float64 `[R]`, G-mean after the last example.
    """

    name: str
    averages: Doubles
    finals: Doubles


@dataclass(frozen=True, slots=True)
class Choice:
    """A method on a stream.

    Attributes:
        stream: The stream.
        method: The method.
        untuned: With the paper's settings, or River's.
        tuned: With the setting that is best on the prefix.
        hindsight: With the setting that is best on the stream itself.
    """

    stream: str
    method: str
    untuned: Setting
    tuned: Setting
    hindsight: Setting

    @property
    def is_rivers(self) -> bool:
        """Whether the method is one of River's."""
        return self.method.startswith("river_")

    @property
    def is_the_papers(self) -> bool:
        """Whether the method is one of the paper's."""
        return not self.is_rivers and self.method != "relay"


def choices(summaries: Mapping[str, RunSummary]) -> list[Choice]:
    """Return a choice for each stream and each method that was run on the stream and on its prefix."""
    found = []
    for stream, prefix in PREFIXES.items():
        here, before = candidates(summaries, stream), candidates(summaries, prefix)
        for method in here:
            settings, earlier = here[method], before.get(method, {})
            plain = _untuned(stream, method)
            usable = [name for name in earlier if name in settings]
            if plain in settings and usable:
                best = max(usable, key=lambda name: float(earlier[name].averages.mean()))
                ideal = max(settings, key=lambda name: float(settings[name].averages.mean()))
                three = [_setting(name, settings[name]) for name in (plain, best, ideal)]
                found.append(Choice(stream, method, *three))
    return found


def candidates(summaries: Mapping[str, RunSummary], stream: str) -> dict[str, dict[str, LearnerSummary]]:
    """Return what was run on a stream, by method and setting."""
    found: dict[str, dict[str, LearnerSummary]] = {}
    for method, setting, learner in _run_on(summaries, stream):
        found.setdefault(method, {})[setting] = learner
    return found


def _run_on(summaries: Mapping[str, RunSummary], stream: str) -> Iterator[tuple[str, str, LearnerSummary]]:
    for name, summary in summaries.items():
        if name.startswith(f"tuning-{stream}."):
            rate, _, scaler = name.removeprefix(f"tuning-{stream}.").rpartition("-")
            for learner, one in summary.learners.items():
                yield learner, _ours(rate, scaler), one
        elif name in (f"rivals-{stream}", f"rivals-ensembles-{stream}"):
            for learner, one in summary.learners.items():
                family = family_of(learner)
                yield family, learner.removeprefix(family).strip("_").replace("_", ", ") or ALONE, one


def _ours(rate: str, scaler: str) -> str:
    return f"{rate}, scaled" if scaler == "standard" else rate


def _untuned(stream: str, method: str) -> str:
    if method == "river_lr":
        return UNTUNED_LOGISTIC
    return ALONE if method == "relay" or method.startswith("river_") else _ours(PAPER_RATES[stream], "none")


def _setting(name: str, learner: LearnerSummary) -> Setting:
    return Setting(name, learner.averages, learner.figures[max(learner.figures)][2])


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads.

    Attributes:
        first: The method with the highest average.
        equal: Methods that a paired t-test does not find worse.
        untested: Methods that share too few repetitions with the first for a test.
    """

    first: str
    equal: Sequence[str]
    untested: Sequence[str]


def leader_of(settings: Mapping[str, Setting]) -> Leader:
    """Compare the best method with every other on the repetitions that both have, which have the same data."""
    first = max(settings, key=lambda name: float(settings[name].averages.mean()))
    best = settings[first].averages
    equal, untested = [], []
    for name, setting in settings.items():
        count = min(len(best), len(setting.averages))
        if name != first and count < FEWEST_TESTED:
            untested.append(name)
        elif name != first and paired_difference(best[:count], setting.averages[:count]) >= ALPHA:
            equal.append(name)
    return Leader(first, equal, untested)
