"""`areba state import`: let a learner of a new or a stopped application continue from a saved state.

The state is written to the task's progress as an act, so every restore, `areba verify` and `areba state list` start
from the same bits. No worker may run, see `progress.writer`.
"""

from collections.abc import Iterator
from pathlib import Path

from stream_app import __version__
from stream_app.admin.models import Application, rebuild
from stream_app.admin.progress.reading import since_last_commit
from stream_app.admin.progress.writer import progress_writer
from stream_app.backends.base import TopicPartition
from stream_app.config import TaskSettings, changes
from stream_app.errors import ConfigurationError
from stream_app.pipeline.stream_state import without_seen
from stream_app.pipeline.task import Task
from stream_app.progress_records import CONFIGURATION, IMPORT, Act
from stream_app.snapshot.identity import RULES
from stream_app.snapshot.imported_state import ImportedModel
from stream_app.snapshot.model_file import ModelFile, digest_of
from stream_app.snapshot.parts import in_parts, whole_acts


def import_model(
    application: Application, file: Path, stream: str, learner: str, task: int | None, *, dry_run: bool = False
) -> Iterator[str]:
    """Let a learner continue from a file of `areba state export`; yield lines for people.

    The stream and the learner need not be those that the state was exported from. Without a `task`, the name of the
    stream decides. Of a stream with lanes, the learner of each lane continues from the file. A dry run only yields the
    lines.

    Raises:
        ConfigurationError: The configuration has changed in a way that the application cannot take over.
        StateError: Workers run, another command has started, or the state does not fit; nothing was written. Of a
            stream with lanes, some lanes may have got the model; the command can be run again.
        UnknownOutcomeError: The broker did not answer in time.
    """
    saved = ModelFile.read(str(file))
    verb = "would continue" if dry_run else "continues"
    lines: list[str] = []
    with progress_writer(application, dry_run=dry_run) as writer:
        for name in application.config.names_of(stream):
            number = application.task_of(name, task)
            writer.begin(number)
            rehearsal = Rehearsal(application, number)
            rehearsal.add_model(name, learner, saved)
            writer.write(number, rehearsal.acts)
            lines += rehearsal.taken_over
            lines.append(f"{name}/{learner} of task {number} {verb} from digest {digest_of(saved.state)}")
    yield from lines


class Rehearsal:
    """A task to which acts are applied before they are written, so that no act is written that a worker would refuse.

    It begins with the newest state of the task, under the settings of the configuration file.

    Attributes:
        task: The task after all acts.
        acts: The acts to be written.
        models: How many models the acts import.
        taken_over: Lines about changes of the configuration that the acts make.

    Raises:
        ConfigurationError: The configuration has changed in a way that the application cannot take over.
        StateError: The task cannot be rebuilt.
        UnknownOutcomeError: The broker did not answer in time.
    """

    def __init__(self, application: Application, number: int) -> None:
        newest, self._sequence = newest_task(application, number)
        self.acts: list[Act] = []
        self.models = 0
        self.taken_over: tuple[str, ...] = ()
        settings = application.config.task_settings()
        if newest is not None:
            settings = as_recorded(settings, newest.settings)
            changed = changes(newest.settings, settings, newest.running())
            if changed.refused:
                raise ConfigurationError(changed.refused)
            self.taken_over = changed.taken_over
        topics = application.config.topics
        self.task = newest or Task(number, settings, topics.inputs)
        if newest is None or newest.settings.to_json() != settings.to_json():
            self._add(
                Act(self._sequence + 1, CONFIGURATION, __version__, settings.to_json(), RULES, application.partitions())
            )

    def add_model(self, stream: str, learner: str, saved: ModelFile) -> None:
        """Let a learner continue from a saved state.

        Raises:
            StateError: The state does not fit; there is no act for it.
        """
        state = without_seen(saved.state)
        imported = ImportedModel(stream, learner, saved.features, saved.settings, state, saved.columns)
        self._add(Act(self._sequence + 1, IMPORT, __version__, imported.text()))
        self.models += 1

    def _add(self, act: Act) -> None:
        self.task.apply(act)
        parts = in_parts(act)
        self.acts += parts
        self._sequence += len(parts)


def as_recorded(settings: TaskSettings, recorded: TaskSettings) -> TaskSettings:
    """Return the settings with what a worker has found out: the limit of a topic, and the schema ids."""
    limited = settings.model_copy(update={"dead_letter_bytes": recorded.dead_letter_bytes})
    return limited.with_schema_ids(recorded.schema_ids, recorded.writer_schemas)


def newest_task(application: Application, number: int) -> tuple[Task | None, int]:
    """Return a task after all of its recorded commits and acts, and its last sequence; None and -1 without any.

    Raises:
        StateError: The task cannot be rebuilt.
        UnknownOutcomeError: The broker did not answer in time.
    """
    recorded = since_last_commit(application.cluster, TopicPartition(application.config.topics.progress, number))
    sequence = recorded[-1].sequence if recorded else -1
    if next(whole_acts(recorded), None) is None:
        return None, sequence
    return rebuild(application, number, None).task, sequence
