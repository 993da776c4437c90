"""Take and load snapshots of a task without a broker."""

from stream_app.config import TaskSettings
from stream_app.pipeline.task import Task
from stream_app.snapshot.format import FORMAT, Entry, Manifest, pack
from stream_app.snapshot.segments import Blob, Book
from stream_app.snapshot.task_loading import load_task
from tests.support.tasks import PARTITION, TOPICS


def exported(task: Task) -> list[bytes]:
    """Return the complete state of a task, independent of its slots."""
    return [
        pack(part)
        for stream in task.states()
        for part in (
            stream.core_state(),
            stream.pending_rows(stream.pending_arrivals()),
            stream.closed_rows(*stream.closed_span()),
        )
    ]


class Changelog:
    """Takes a snapshot and loads a new task from it; keeps blobs as the changelog topic does."""

    def __init__(self, settings: TaskSettings) -> None:
        self.settings = settings
        self.book = Book()
        self.contents: dict[str, bytes] = {}
        self.written: list[Blob] = []
        self.entries: tuple[Entry, ...] = ()
        self.sequence = 0

    def relay(self, task: Task) -> Task:
        """Return another task in the same state."""
        self.write(task)
        text = Manifest(
            format=FORMAT,
            engine="test",
            partition=PARTITION,
            sequence=self.sequence,
            digest="0" * 64,
            offsets=(0, 0),
            settings=task.settings.to_json(),
            entries=self.entries,
            stopped=task.stopped,
        ).to_bytes()
        manifest = Manifest.from_bytes(text, "test")
        fresh = Task(PARTITION, TaskSettings.from_json(manifest.settings), TOPICS)
        self.book = load_task(fresh, manifest, self.contents, "test")
        assert exported(fresh) == exported(task)
        return fresh

    def write(self, task: Task) -> None:
        """Take a snapshot."""
        self.sequence += 1
        states = task.take_states()
        task.core_forms.pack(states)
        listed = self.book.draft(states, str(self.sequence))
        self.written = [item for item in listed if isinstance(item, Blob)]
        assert not {blob.key for blob in self.written} & self.contents.keys(), "a key was used twice"
        for blob in self.written:
            self.book.note_written(blob, len(self.contents))
        self.contents |= {blob.key: blob.content for blob in self.written}
        self.entries = self.book.entries(stream.name for stream in task.states())
