"""The progress bar of a file that is read; notes about the file appear above it."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from stream_app.producers.files.layout import FileOptions
from stream_app.producers.files.source import Reading
from stream_app.terminal import Terminal


@contextmanager
def reading_bar(options: FileOptions) -> Iterator[Reading]:
    """Show the progress of reading a file, and its notes, on standard error."""
    columns = (TextColumn("reading"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Terminal(stderr=True)
    is_hidden = not console.is_interactive  # otherwise rich writes an empty line
    with Progress(*columns, console=console, transient=True, disable=is_hidden) as bars:
        task = bars.add_task("reading", total=None)

        def on_note(note: str) -> None:
            bars.console.print(f"areba-replay: {note}", soft_wrap=True)

        def on_progress(done: int, size: int) -> None:
            bars.update(task, completed=done, total=size)

        yield Reading(options=options, on_note=on_note, on_progress=on_progress)
