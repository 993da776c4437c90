"""The colour of each method, the same in every figure of the study and on the dashboard."""

from collections.abc import Mapping

from stream_app.monitor.colours import METHOD_COLOURS
from study.report.rivals.colours import rivals_colour

INK, GREY, GRID = "#222222", "#6b6b6b", "#e4e4e4"
DRIFT_COLOUR = "#222222"

COLOURS: Mapping[str, str] = {
    "areba_20": METHOD_COLOURS["areba"],
    "areba_50": "#1b9e9e",
    "areba_2": "#6baed6",
    "areba_100": "#7d7aa8",
    "qbr_20": METHOD_COLOURS["qbr"],
    "qbr_100": "#a3541a",
    "oob": METHOD_COLOURS["oob"],
    "oob_single": METHOD_COLOURS["oob_single"],
    "uob": METHOD_COLOURS["uob"],
    "adaptive_cs": METHOD_COLOURS["adaptive_cs"],
    "sliding": METHOD_COLOURS["sliding"],
    "baseline": METHOD_COLOURS["baseline"],
    "relay": METHOD_COLOURS["relay"],
    "B = 2": "#6baed6",
    "B = 20": METHOD_COLOURS["areba"],
    "B = 50": "#1b9e9e",
    "B = 100": "#7d7aa8",
    "B = 500": "#3b2a6e",
    "B = 1000": "#000000",
    "10 %": "#2d2013",
    "1 %": "#8a6642",
    "0.1 %": "#c9a982",
}
"""Colours of learners, and of budgets and imbalances where these are the lines; no method has another's colour.

River's methods are also drawn as dashed lines. With AREBA, a budget has the colour of AREBA with this budget.
"""

MORE_COLOURS = ("#1a1a66", "#ff8f70", "#00a0c6", "#b5179e", "#4a4e00", "#c2b280", "#00594c", "#ff5d8f", "#5c4033")
"""Colours of all other names, none of which is in `COLOURS`; a name takes the same one in every figure."""


VARIANTS = ("_kappa", "_half", "_scaled")
"""Ends of names that change no colour: another threshold, and scaled features."""


def colour_of(name: str) -> str:
    """Return the colour of a learner, budget or imbalance."""
    for end in VARIANTS:
        name = name.removesuffix(end)
    known = COLOURS.get(name) or rivals_colour(name)
    return known if known is not None else MORE_COLOURS[sum(name.encode()) % len(MORE_COLOURS)]


def dashes_of(name: str) -> str | tuple[int, tuple[int, ...]]:
    """Return the line style of a learner: dashed for River's methods."""
    return (0, (4, 1.5)) if name.startswith("river_") else "-"  # type: ignore[return-value]  # floats are fine
