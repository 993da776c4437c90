"""Write the pages of the runs that have pages of their own."""

from collections.abc import Mapping
from pathlib import Path

from study.report.rivals.relay import write_relay
from study.report.rivals.tuning import write_tuning
from study.report.rivals.yardstick import write_yardstick
from study.report.summary import RunSummary
from study.run.experiment import load_all

MEASURED = Path(__file__).parents[2] / "results"
"""The committed results: figures that other programs of the study wrote are read from here."""


def write_pages(summaries: Mapping[str, RunSummary], results: Path, measured: Path = MEASURED) -> dict[str, str]:
    """Write the pages for which there are figures, and return their titles by name.

    Args:
        summaries: All runs with a finished repetition, by name.
        results: The folder of the pages.
        measured: The folder with the figures of `study.relay`, `study.relay.unseen` and `study.moa`.
    """
    ours = {experiment.name for experiment in load_all()}
    is_ours = any(summary.run.experiment.name in ours for summary in summaries.values())
    pages = {
        "tuning": ("Each method tuned on a prefix", write_tuning(summaries, results)),
        "yardstick": ("The survey's generators", write_yardstick(summaries, results, measured)),
        "relay": ("RELAY, a method of this project", is_ours and write_relay(results, measured)),
    }
    return {name: title for name, (title, written) in pages.items() if written}
