"""What the configuration knows of the learning methods: one entry for each.

Their code is in `stream_app.learners.methods`. It is compiled, and no command should load the compiler to read a
configuration.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class _MethodFacts(NamedTuple):
    """What the configuration knows of a method. Functions get the `LearnerSettings` of a learner.

    Attributes:
        settings: Those of its settings that not every method has.
        colour: Its colour on the dashboard and in the figures of the study.
        rows: The most examples that a learner keeps.
        networks: The networks of a learner.
        decides: The settings of other methods that this method decides itself.
        keeps_arrivals: Whether it keeps when each example came.
        predictor: The number of the network that predicts; None: all networks predict.
    """

    settings: tuple[str, ...]
    colour: str
    rows: Callable[[Any], int] = lambda _: 1
    networks: Callable[[Any], int] = lambda _: 1
    decides: frozenset[str] = frozenset()
    keeps_arrivals: bool = False
    predictor: int | None = None


METHOD_FACTS: Mapping[str, _MethodFacts] = MappingProxyType(
    {
        "areba": _MethodFacts(("budget", "theta"), "#0b5fa5", lambda own: 2 * own.budget),
        "qbr": _MethodFacts(("budget",), "#e08214", lambda own: own.budget),
        "baseline": _MethodFacts((), "#7a7a7a"),
        "sliding": _MethodFacts(("window",), "#d1495b", lambda own: own.window),
        "adaptive_cs": _MethodFacts(("cost", "largest_cost", "cost_interval_labels", "theta"), "#8f5ea8"),
        "oob": _MethodFacts(("ensemble_size", "theta"), "#3a8f6f", networks=lambda own: own.ensemble_size),
        "uob": _MethodFacts(("ensemble_size", "theta"), "#b8860b", networks=lambda own: own.ensemble_size),
        "oob_single": _MethodFacts(("theta",), "#7fbf5b"),
        "relay": _MethodFacts(
            ("replay_per_class",),
            "#c2185b",
            rows=lambda own: 2 * own.replay_per_class,
            networks=lambda _: 7,
            decides=frozenset({"learning_rate", "l2", "scaler"}),
            keeps_arrivals=True,
            predictor=1,
        ),
    }
)
"""By the name that a configuration uses."""
