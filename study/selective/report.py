"""The tables of the benchmark, from the committed figures of every repetition."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import ArebaError
from study.relay.verdicts import better_and_worse, verdicts
from study.report.figures import LevelPanel, draw
from study.report.page import cell
from study.report.summary import mean_and_error
from study.report.tables import markdown, tables_beside, with_table
from study.selective.methods import METHODS
from study.selective.policies import POLICIES
from study.selective.results import RESULTS, Finished, Repetition, read_results
from study.selective.scoring import Figures
from study.selective.streams import ALL_STREAMS, FIELD_STREAMS, STREAMS

PAGE = Path(__file__).parents[1] / "selective.md"
MODELS_PAGE = Path(__file__).parents[2] / "docs" / "models.md"

OURS = "relay"
"""The method that is tested against each of the others."""

SHOWN = ("areba_20", "areba_100_scaled", "qbr_100", "oob", "uob", "relay", "relay_2000", "fnw_share")
"""The methods in the table for users."""

ALL_LABELS = "at-once"

Doubles = NDArray[np.float64]


class Measured:
    """The figures of every repetition, by what they are about.

    Args:
        finished: The repetitions.
        streams: The streams that count.
    """

    def __init__(self, finished: Finished, streams: Iterable[str] = STREAMS) -> None:
        wanted = set(streams)
        self._finished = {one: figures for one, figures in finished.items() if one.stream in wanted}
        self.seeds = len({one.seed for one in self._finished})
        methods, found = ({getattr(one, field) for one in self._finished} for field in ("method", "stream"))
        self.methods = tuple(name for name in dict.fromkeys((*METHODS, *sorted(methods))) if name in methods)
        self.streams = tuple(name for name in streams if name in found)

    def of(self, stream: str, policy: str, method: str, figure: str) -> Doubles:
        """Return a figure of each seed, float64 `[seeds]`."""
        chosen = [
            getattr(figures, figure)
            for repetition, figures in self._finished.items()
            if (repetition.stream, repetition.policy, repetition.method) == (stream, policy, method)
        ]
        return np.array(chosen)

    def mean(self, policy: str, method: str, figure: str) -> float:
        """Return the mean of a figure over all streams and seeds."""
        return float(np.mean([self.of(stream, policy, method, figure) for stream in self.streams]))


Cell = Callable[[str, str], str]


def _by_policy(methods: Sequence[str], text: Cell, policies: Sequence[str] = tuple(POLICIES)) -> str:
    """Return a table with a row for each method and a column for each policy."""
    rows = [[f"`{method}`", *(text(policy, method) for policy in policies)] for method in methods]
    return "\n".join(markdown(("method", *policies), rows)).strip()


def means(measured: Measured, methods: Sequence[str]) -> str:
    """Return G-mean at the end and on average, over all streams and seeds."""
    return _by_policy(
        methods,
        lambda policy, method: " / ".join(
            f"{measured.mean(policy, method, figure):.3f}" for figure in ("gmean_end", "gmean_average")
        ),
    )


def summary(measured: Measured) -> str:
    """Return which method has the highest mean under each policy, and for which methods corrections change nothing."""

    def end(policy: str, method: str) -> float:
        return measured.mean(policy, method, "gmean_end")

    best = {policy: max(measured.methods, key=partial(end, policy)) for policy in POLICIES}
    first = ", ".join(f"`{method}` with `{policy}` ({end(policy, method):.3f})" for policy, method in best.items())
    unmoved = [
        f"`{method}`"
        for method in measured.methods
        if all(np.all(_same(measured, policy, method)) for policy in ("corrected-1200", "corrected"))
    ]
    return (
        f"- The highest mean at the end has {first}.\n"
        f"- Corrections change no figure of any repetition of {', '.join(unmoved)}."
    )


def _same(measured: Measured, policy: str, method: str) -> list[NDArray[np.bool_]]:
    """Return for each stream which repetitions are the same as without complaints."""
    return [
        measured.of(stream, policy, method, "gmean_average") == measured.of(stream, "never", method, "gmean_average")
        for stream in measured.streams
    ]


def of_stream(measured: Measured, stream: str, methods: Sequence[str]) -> str:
    """Return G-mean at the end and, with its standard error, on average, on one stream."""
    return _by_policy(
        methods,
        lambda policy, method: (
            f"{measured.of(stream, policy, method, 'gmean_end').mean():.3f} / "
            f"{cell(measured.of(stream, policy, method, 'gmean_average'))}"
        ),
    )


def checks(measured: Measured, methods: Sequence[str]) -> str:
    """Return kappa, the share of positives that were found, and the share of alerts, over all streams and seeds."""
    return _by_policy(
        methods,
        lambda policy, method: " / ".join(
            f"{measured.mean(policy, method, figure):.2f}" for figure in ("kappa", "found", "alerts")
        ),
    )


def ends(measured: Measured, policy: str) -> str:
    """Return G-mean at the end on each stream under one policy."""
    rows = [
        [
            f"`{method}`",
            *(f"{measured.of(stream, policy, method, 'gmean_end').mean():.3f}" for stream in measured.streams),
        ]
        for method in measured.methods
    ]
    return "\n".join(markdown(("method", *measured.streams), rows)).strip()


def counts(measured: Measured, one: tuple[str, str], two: tuple[str, str], figure: str) -> str:
    """Return on how many streams the first of two is better and worse, as `better, worse`.

    A difference counts if it is significant at 5 % by a paired t-test over the seeds, with Holm's correction over the
    streams.

    Args:
        measured: The figures.
        one: A policy and a method.
        two: What it is compared with.
        figure: The name of the figure.
    """
    compared = [
        np.column_stack([measured.of(stream, *own, figure) for own in (two, one)]) for stream in measured.streams
    ]
    return "{}, {}".format(*better_and_worse(verdicts(compared)))


def tests(measured: Measured, figure: str) -> str:
    """Return on how many streams our method is better and worse than each other method, by policy."""
    others = [method for method in measured.methods if method != OURS]
    return _by_policy(others, lambda policy, method: counts(measured, (policy, OURS), (policy, method), figure))


def higher(measured: Measured, figure: str) -> str:
    """Return on how many streams the mean of our method is higher than that of each other method, by policy."""

    def text(policy: str, method: str) -> str:
        means = [
            [measured.of(stream, policy, name, figure).mean() for name in (OURS, method)] for stream in measured.streams
        ]
        return f"{sum(ours > other for ours, other in means)} of {len(means)}"

    return _by_policy([method for method in measured.methods if method != OURS], text)


def corrections(measured: Measured, policy: str) -> str:
    """Return what corrections bring at the end: the figures with them against those without complaints."""
    rows = []
    for method in measured.methods:
        gain = measured.mean(policy, method, "gmean_end") - measured.mean("never", method, "gmean_end")
        same = _same(measured, policy, method)
        rows.append(
            [
                f"`{method}`",
                f"{gain:+.3f}",
                counts(measured, (policy, method), ("never", method), "gmean_end"),
                f"{np.sum(same)} of {np.size(same)}",
            ]
        )
    return "\n".join(markdown(("method", "gain", "better, worse", "repetitions without any change"), rows)).strip()


def for_labels_page(finished: Finished) -> list[str]:
    """Return the lines on RELAY for the study's page on labels: its Sine under the same policies."""
    measured = Measured(finished)
    policies = (ALL_LABELS, "waits", "corrected", "never")
    rows = [
        [
            method,
            *(
                f"{measured.of('sine-1', policy, method, 'gmean_end').mean():.3f} / "
                f"{cell(measured.of('sine-1', policy, method, 'gmean_average'))}"
                for policy in policies
            ),
        ]
        for method in ("areba_20", OURS, "relay_2000")
    ]
    return [
        (
            "RELAY is not among these methods. It keeps 500 examples of each class, or 2,000 as `relay_2000`, and"
            " learns a correction while it keeps the example. On the same stream,"
            f" repetitions 0 to {measured.seeds - 1}"
            " ([selective.md](../selective.md) has more streams, and more methods):"
        ),
        "",
        *markdown(("learner", "all labels", *policies[1:]), rows),
    ]


def _said(measured: Measured) -> str:
    return f"Means of {measured.seeds} seeds and {len(measured.streams)} streams, G-mean at the end / on average:"


def tables(measured: Measured, field: Measured) -> Iterator[tuple[str, str]]:
    """Yield the tables of the page, each with its name; `field` has the streams of the field."""
    methods = measured.methods
    yield "summary", summary(measured)
    yield "means", f"{_said(measured)}\n\n{means(measured, methods)}"
    yield "field means", f"{_said(field)}\n\n{means(field, field.methods)}"
    yield "field higher", higher(field, "gmean_end")
    yield "tests end", tests(measured, "gmean_end")
    yield "tests average", tests(measured, "gmean_average")
    yield "corrections 1200", corrections(measured, "corrected-1200")
    yield "corrections 2000", corrections(measured, "corrected")
    yield "checks", checks(measured, methods)
    yield "sine-1", of_stream(measured, "sine-1", methods)
    for policy in POLICIES:
        yield policy, ends(measured, policy)


def models_table(measured: Measured) -> str:
    """Return the table for users: G-mean at the end over all streams, of some methods, by policy."""
    rows = [[policy, *(f"{measured.mean(policy, method, 'gmean_end'):.2f}" for method in SHOWN)] for policy in POLICIES]
    return "\n".join(markdown(("labels", *(f"`{method}`" for method in SHOWN)), rows)).strip()


def draw_picture(measured: Measured, folder: Path) -> None:
    """Draw G-mean at the end of some methods under each policy, with the standard error over the streams."""
    values: dict[str, Sequence[float]] = {}
    errors: dict[str, Sequence[float]] = {}
    for method in SHOWN:
        own = [
            np.array([measured.of(stream, policy, method, "gmean_end").mean() for stream in measured.streams])
            for policy in POLICIES
        ]
        values[method], _, errors[method] = zip(*map(mean_and_error, own), strict=True)
    panel = LevelPanel("", list(POLICIES), values, errors, "which labels come, and when", connected=False)
    draw(
        [[panel]],
        folder / "selective.png",
        "What a method keeps when labels come late, or only for its alerts",
        f"means of {len(measured.streams)} streams, whose concept changes half-way, and {measured.seeds} seeds; bars:"
        f" standard error over streams; {len(SHOWN)} of {len(measured.methods)} methods",
        7.5,
    )


def of_file(path: Path) -> str:
    """Return the means of a reader's own file, and those of the page over the same streams and seeds.

    The streams of the field, whose sums never restart, have a table of their own, as on the page. A method that lacks
    some of these repetitions has an empty cell.

    Raises:
        ArebaError: The file has no repetition.
    """
    return tables_beside(path, read_results(path), (STREAMS, FIELD_STREAMS), partial(_beside, read_results(), path))


def _beside(committed: Finished, path: Path, own: Mapping[Repetition, Figures]) -> str:
    """Return the table of a part of a file."""
    parts = {one._replace(method="") for one in own}
    both = {**{one: found for one, found in committed.items() if one._replace(method="") in parts}, **own}
    policies = [policy for policy in POLICIES if any(one.policy == policy for one in parts)]

    def text(policy: str, method: str) -> str:
        wanted = [one._replace(method=method) for one in parts if one.policy == policy]
        found = [both[one] for one in wanted if one in both]
        if len(found) < len(wanted):
            return ""
        return f"{np.mean([one.gmean_end for one in found]):.3f} / {np.mean([one.gmean_average for one in found]):.3f}"

    methods = dict.fromkeys(one.method for one in both)
    said = f"Means of the {len({(one.stream, one.seed) for one in parts})} streams and seeds of {path}"
    return f"{said}, G-mean at the end / on average:\n\n{_by_policy(tuple(methods), text, policies)}"


def write_pages(results: Path = RESULTS) -> None:
    """Replace the tables of both pages, and draw the picture.

    Raises:
        ArebaError: A method of the benchmark was not run on each stream with each policy.
    """
    finished = read_results(results)
    measured = Measured(finished)
    there = {(one.stream, one.policy, one.method) for one in finished}
    wanted = product(ALL_STREAMS, POLICIES, dict.fromkeys((*METHODS, *measured.methods)))
    if missing := [one for one in wanted if one not in there]:
        raise ArebaError(f"{results}: {len(missing)} parts of the tables were not run, such as {', '.join(missing[0])}")
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables(measured, Measured(finished, FIELD_STREAMS)):
        text = with_table(text, name, table)
    PAGE.write_text(text, encoding="utf-8")
    models = MODELS_PAGE.read_text(encoding="utf-8")
    MODELS_PAGE.write_text(with_table(models, "selective", models_table(measured)), encoding="utf-8")
    draw_picture(measured, results.parent)
