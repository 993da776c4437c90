"""What a configuration file would change in a running or stopped application, found out before anybody restarts."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from stream_app.admin.models import Application
from stream_app.admin.saved_models.import_model import as_recorded, newest_task
from stream_app.config import changes
from stream_app.errors import StateError


class _Effect(StrEnum):
    """What a restart with the new file does about a difference; what was promoted stays."""

    TAKEN_OVER = "taken-over"
    RESTARTS = "restarts"
    REFUSED = "refused"
    STAYS = "stays"


@dataclass(frozen=True, slots=True)
class _Difference:
    """A difference between the file and the settings in force, and the tasks that have it."""

    effect: _Effect
    text: str
    tasks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A file, compared with the settings in force.

    Attributes:
        differences: The differences: refused ones first, then those that restart learners; last, what stays.
        new: Tasks that have no state yet: they begin with the file as it is.
        problems: By task, why its state cannot be read.
    """

    differences: tuple[_Difference, ...]
    new: tuple[int, ...]
    problems: dict[int, str]

    @property
    def ok(self) -> bool:
        """Whether all tasks would accept the file."""
        return not self.problems and all(one.effect is not _Effect.REFUSED for one in self.differences)

    def lines(self) -> Iterator[str]:
        """Yield a line for each difference, for each problem, and at least one line."""
        for one in self.differences:
            yield f"{one.effect:<10}  {one.text} [{_tasks(one.tasks)}]"
        for task, problem in self.problems.items():
            yield f"task {task}: cannot be compared: {problem}"
        if self.new:
            yield f"{_tasks(self.new)}: nothing is committed yet, so any file will do"
        if all(one.effect is _Effect.STAYS for one in self.differences) and not self.problems:
            yield "nothing that changes results: all other settings hold after a restart"

    def to_plain(self) -> dict[str, Any]:
        """Return the content of the JSON document."""
        return {"ok": self.ok, **asdict(self)}


def _tasks(numbers: tuple[int, ...]) -> str:
    return f"task{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"


def compare(application: Application) -> Comparison:
    """Compare the configuration of a application with the settings that each task has recorded.

    Each task is rebuilt from its newest snapshot, since what may change depends on its streams and their champions.

    Raises:
        TopicError: The application has no topics.
        UnknownOutcomeError: The broker did not answer in time.
    """
    found: dict[tuple[_Effect, str], list[int]] = {}
    new: list[int] = []
    problems: dict[int, str] = {}
    for number in range(application.partitions()):
        try:
            task, _ = newest_task(application, number)
        except StateError as error:
            problems[number] = str(error)
            continue
        if task is None:
            new.append(number)
            continue
        found_here = changes(
            task.settings, as_recorded(application.config.task_settings(), task.settings), task.running()
        )
        for text in found_here.refused:
            found.setdefault((_Effect.REFUSED, text), []).append(number)
        for text in found_here.kept:
            found.setdefault((_Effect.STAYS, text), []).append(number)
        for text in found_here.taken_over:
            effect = _Effect.RESTARTS if text in found_here.restarting else _Effect.TAKEN_OVER
            found.setdefault((effect, text), []).append(number)
    order = [_Effect.REFUSED, _Effect.RESTARTS, _Effect.TAKEN_OVER, _Effect.STAYS]
    differences = (_Difference(effect, text, tuple(tasks)) for (effect, text), tasks in found.items())
    return Comparison(tuple(sorted(differences, key=lambda one: order.index(one.effect))), tuple(new), problems)
