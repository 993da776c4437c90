"""Tasks that stay in memory from a rebalance's revocation to its assignment.

Rebalances are eager: the group takes back all tasks and then assigns most of them to the same workers again. A task
that comes back unchanged continues without a restore.
"""

from collections.abc import Collection

from stream_app.task_state import TaskState
from stream_app.worker.owned_task import OwnedTask


class KeptTasks:
    """The revoked tasks of a worker, until the group's next assignment."""

    def __init__(self) -> None:
        self._tasks: dict[int, OwnedTask] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._tasks

    def keep(self, task: OwnedTask, *, is_readable: bool) -> None:
        """Keep a task if its state is what it last committed; close it otherwise.

        While a snapshot is being written, another owner may write the same chunks to the changelog, so such a task is
        not kept. A task whose writes cannot be read is not kept either: what hangs may be aborted before the task
        comes back, and nothing shows that later, so only a restore finds and repairs it.

        Args:
            task: The task.
            is_readable: Whether everything that the task has written could be read at the last look.
        """
        if task.state is not TaskState.LIVE or task.is_saving or not is_readable:
            task.close()
            return
        self._tasks[task.number] = task

    def close_others(self, numbers: Collection[int]) -> None:
        """Close all tasks but these: the group assigned the others to other workers."""
        for number in [number for number in self._tasks if number not in numbers]:
            self._tasks.pop(number).close()

    def take(self, number: int, progress_end: int) -> OwnedTask | None:
        """Return a kept task if nobody has written to its progress since; close it otherwise.

        Args:
            number: The number of the task.
            progress_end: The end of its progress, below which no transaction is open.
        """
        task = self._tasks.pop(number, None)
        if task is None:
            return None
        # An owner writes its transactional id to progress before it restores a task. So if progress ends where our last
        # commit ended, nobody has restored the task, and its state in memory is what a restore would compute.
        if task.position.progress_end == progress_end:
            return task
        task.close()
        return None
