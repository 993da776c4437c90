"""Labels at the ends of lines, which replace a legend."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from study.report.drawing.colours import GREY, colour_of

FONT = "DejaVu Sans"
"""A font that comes with matplotlib, so that figures are the same on every machine."""

LABEL_POINTS = 7.0
GAP_POINTS = 8.2
"""Size of a label, and least distance between the baselines of two labels."""

LEADER_POINTS, MARK_POINTS = 14.0, 7.0
"""Distance from the axis to the labels, and to the marks between both."""

POINTS_PER_INCH = 72.0


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return positions as near to the wanted ones as possible that are `gap` apart, and inside the limits if they fit.

    Args:
        wanted: The positions, in any order.
        gap: The least distance.
        low: The lower limit.
        high: The upper limit.
    """
    order = sorted(range(len(wanted)), key=lambda place: wanted[place])
    groups: list[list[int]] = []
    for place in order:
        groups.append([place])
        while len(groups) > 1 and _start(groups[-1], wanted, gap, low, high) < gap + _end(
            groups[-2], wanted, gap, low, high
        ):
            last = groups.pop()
            groups[-1] += last
    placed = [0.0] * len(wanted)
    for group in groups:
        start = _start(group, wanted, gap, low, high)
        for number, place in enumerate(group):
            placed[place] = start + number * gap
    return placed


def _start(group: Sequence[int], wanted: Sequence[float], gap: float, low: float, high: float) -> float:
    """Return the position of the first of a group of neighbours, whose centre is where they want to be on average."""
    span = gap * (len(group) - 1)
    centre = sum(wanted[place] for place in group) / len(group)
    return max(low, min(centre - span / 2.0, high - span))


def _end(group: Sequence[int], wanted: Sequence[float], gap: float, low: float, high: float) -> float:
    return _start(group, wanted, gap, low, high) + gap * (len(group) - 1)


def label_ends(axis: Axes, ends: Mapping[str, float], marks: Mapping[str, float] | None = None) -> None:
    """Write the name of each line beside its end, in its colour, and draw marks between line and name.

    Args:
        axis: The axes, whose limits are final.
        ends: The last value of each line.
        marks: A value of another source for some of the lines, drawn as a hollow diamond.
    """
    bottom, top = axis.get_ylim()
    points = POINTS_PER_INCH / axis.figure.dpi
    height, width = axis.bbox.height * points, axis.bbox.width * points
    shares = [min(1.0, max(0.0, (value - bottom) / (top - bottom))) for value in ends.values()]
    places = spread(shares, GAP_POINTS / height, 0.0, 1.0)
    left, middle = 1.0 + LEADER_POINTS / width, 1.0 + MARK_POINTS / width
    for name, share, place in zip(ends, shares, places, strict=True):
        colour = colour_of(name)
        axis.annotate(
            name,
            xy=(1.0, share),
            xycoords="axes fraction",
            xytext=(left, place),
            textcoords="axes fraction",
            va="center",
            fontsize=LABEL_POINTS,
            fontfamily=FONT,
            color=colour,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.5,
                "shrinkA": 0,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )
    for name, value in (marks or {}).items():
        axis.plot(
            [middle],
            [(value - bottom) / (top - bottom)],
            transform=axis.transAxes,
            marker="D",
            markersize=4.5,
            markerfacecolor="white",
            markeredgecolor=colour_of(name),
            markeredgewidth=1.3,
            clip_on=False,
            zorder=5,
        )


def dress_text(size: float = 8.0) -> dict[str, object]:
    """Return the font of axis labels."""
    return {"color": GREY, "size": size, "family": FONT}
