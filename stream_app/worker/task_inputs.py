"""Reading the inputs of a worker's tasks: where it starts, and when it pauses because a buffer is full."""

from stream_app.backends.base import Fetched, Source, TopicPartition
from stream_app.worker.owned_task import OwnedTask


class TaskInputs:
    """The inputs of the tasks of one worker.

    Args:
        source: Reads them.
        buffer_bytes: Bytes of waiting records above which a partition is paused.
    """

    def __init__(self, source: Source, buffer_bytes: int) -> None:
        self._source = source
        self._buffer_bytes = buffer_bytes
        self._paused: dict[TopicPartition, OwnedTask] = {}

    def take(self, task: OwnedTask, fetched: Fetched) -> None:
        """Give fetched records to their task, and pause a partition whose buffer is full."""
        place = fetched.partition
        task.add(task.inputs.index(place), fetched)
        if place not in self._paused and self._is_full(task, place, 1):
            self._source.pause([place])
            self._paused[place] = task

    def _is_full(self, task: OwnedTask, place: TopicPartition, share: int) -> bool:
        """Say whether more than 1/share of the buffer is used; a recorded range is fetched whole all the same."""
        side = task.inputs.index(place)
        return task.waiting[side].bytes > self._buffer_bytes // share and not task.lacks(side)

    def resume_drained(self) -> None:
        """Resume fetching a partition that was paused because its buffer was full, once the buffer is half empty."""
        drained = [place for place, task in self._paused.items() if not self._is_full(task, place, 2)]
        if drained:
            self._source.resume(drained)
            self._forget(drained)

    def start(self, task: OwnedTask) -> None:
        """Fetch the inputs from the offsets at which the task continues."""
        for records in task.waiting:
            records.clear()
        self._forget(task.inputs)
        self._source.start_at(dict(zip(task.inputs, task.offsets, strict=True)))

    def stop(self, task: OwnedTask) -> None:
        """Fetch the inputs no more, and discard what waits."""
        self._source.stop_reading(task.inputs)
        self.forget(task)

    def forget(self, task: OwnedTask) -> None:
        """Discard what waits of a task that is no longer assigned."""
        self._forget(task.inputs)
        for records in task.waiting:
            records.clear()

    def _forget(self, places: tuple[TopicPartition, ...] | list[TopicPartition]) -> None:
        for place in places:
            self._paused.pop(place, None)
