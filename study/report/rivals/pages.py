"""Write the pages of the runs that have pages of their own."""

from collections.abc import Sequence
from pathlib import Path

from rich.progress import track

from stream_app.terminal import Terminal
from study.report.rivals.tuning import write_tuning
from study.report.rivals.yardstick import write_yardstick
from study.report.summary import summarise
from study.run.experiment import Run
from study.run.store import Store, engine_version


def write_pages(runs: Sequence[Run], store_folder: Path, results: Path, console: Terminal) -> list[Path]:
    """Write the pages of these runs, as far as they are finished, and return their paths.

    Raises:
        StateError: A stored repetition is damaged.
    """
    store = Store(store_folder, engine_version())
    results.mkdir(parents=True, exist_ok=True)
    found = (summarise(run, store) for run in track(runs, "reading", console=console, transient=True))
    summaries = {summary.run.name: summary for summary in found if summary is not None}
    pages = (write_tuning(summaries, results), write_yardstick(summaries, results))
    return [page for page in pages if page is not None]
