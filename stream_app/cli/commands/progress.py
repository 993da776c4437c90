"""A progress bar on standard error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from stream_app.terminal import Terminal


@contextmanager
def progress_bar(description: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar, and yield the function that updates it: `(done, total)`. The bar disappears at the end.

    Without a terminal nothing is written; otherwise rich would write an empty line.
    """
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Terminal(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_interactive) as bars:
        bar = bars.add_task(description, total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)
