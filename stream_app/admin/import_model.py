"""`areba state import`: let a learner of a new or a stopped application continue from a saved state.

The state is written to the task's progress as an act, so every restore, `areba verify` and `areba state rebuild` start
from the same bits. A running worker reads progress only at its start, and would write a record with the sequence of the
act. Therefore no worker may run.
"""

from collections.abc import Iterator
from pathlib import Path

from stream_app import __version__
from stream_app.admin.history import READ_TIMEOUT_S, History, last_commit, progress_tail, tripped_by
from stream_app.admin.models import Place, waiting_for
from stream_app.backends.base import Sender, TopicPartition
from stream_app.config import TaskSettings, changes
from stream_app.errors import ConfigurationError, ErrorCode, StateError
from stream_app.pipeline.stream_state import without_seen
from stream_app.pipeline.task import Task
from stream_app.records import CONFIGURATION, SEED, Act, Commit
from stream_app.serialization import codec
from stream_app.snapshot.identity import RULES
from stream_app.snapshot.imported_state import Seed
from stream_app.snapshot.model_file import digest_of, read_model_file
from stream_app.snapshot.parts import in_parts, whole_acts


def import_model(
    place: Place, sender: Sender, file: Path, stream: str, learner: str, task: int | None
) -> Iterator[str]:
    """Let a learner continue from a file of `areba state export`; yield lines for people.

    Args:
        place: The application.
        sender: Writes to its brokers.
        file: The model file.
        stream: Name of the learner's stream, which need not be the stream that the state was exported from.
        learner: Name of the learner; likewise.
        task: Number of the task; None if the name of the stream decides.

    Raises:
        ConfigurationError: The configuration has changed in a way that the application cannot take over.
        StateError: Workers run, or the state does not fit the learner; nothing was written.
        UnknownOutcomeError: The broker did not answer in time.
    """
    number = place.task_of(stream, task)
    saved = read_model_file(str(file))
    seed = Seed(stream, learner, saved.features, saved.settings, without_seen(saved.state))
    place.check_nobody_works()
    acts, changed = _acts(place, number, seed)
    progress = place.config.topics.progress
    for act in acts:
        sender.send(progress, None, codec.encode(act), place.clock.now_ms(), partition=number)
    sender.flush(READ_TIMEOUT_S)
    place.check_nobody_works()
    yield from changed
    yield f"{stream}/{learner} of task {number} continues from digest {digest_of(saved.state)}"


def _acts(place: Place, number: int, seed: Seed) -> tuple[list[Act], tuple[str, ...]]:
    """Return the acts to be written, and lines about changes of the configuration that they make.

    The acts are applied to a rebuilt task first, so that an act that a worker would refuse is never written.
    """
    rehearsal, sequence = newest_task(place, number)
    taken_over: tuple[str, ...] = ()
    settings = place.config.task_settings()
    texts: list[tuple[str, str]] = []
    if rehearsal is None:
        rehearsal = Task(number, settings, _inputs(place))
        texts.append((CONFIGURATION, settings.to_json()))
    elif rehearsal.settings.to_json() != (settings := as_recorded(settings, rehearsal.settings)).to_json():
        changed = changes(rehearsal.settings, settings, rehearsal.running())
        if changed.refused:
            raise ConfigurationError(changed.refused)
        taken_over = changed.taken_over
        texts.append((CONFIGURATION, settings.to_json()))
    texts.append((SEED, seed.text()))
    acts: list[Act] = []
    for kind, text in texts:
        in_force = (RULES, place.partitions()) if kind == CONFIGURATION else ()
        act = Act(sequence + 1 + len(acts), kind, __version__, text, *in_force)
        rehearsal.apply(act)
        acts += in_parts(act)
    return acts, taken_over


def as_recorded(settings: TaskSettings, recorded: TaskSettings) -> TaskSettings:
    """Return the settings with what a worker has found out: the limit of a topic, and the schema ids."""
    limited = settings.model_copy(update={"dead_letter_bytes": recorded.dead_letter_bytes})
    return limited.with_schema_ids(recorded.schema_ids)


def newest_task(place: Place, number: int) -> tuple[Task | None, int]:
    """Return a task after all of its recorded commits and acts, and its last sequence; None and -1 without any.

    Raises:
        StateError: The breaker has stopped the task, or it cannot be rebuilt.
        UnknownOutcomeError: The broker did not answer in time.
    """
    recorded = _since_last_commit(place, number)
    sequence = recorded[-1].sequence if recorded else -1
    if not recorded or not isinstance(recorded[0], Commit):
        task = None  # nothing was processed yet
    elif tripped_by(recorded) is not None:
        raise StateError(
            f"task {number} is stopped by the breaker: run `areba resume --task {number}` first", ErrorCode.TASK_TRIPPED
        )
    else:
        history = History(place.config, place.cluster, number)
        with waiting_for(number) as report:
            task = history.rebuild(history.at(None), place.clock, report).task
    for act in whole_acts(recorded):
        if isinstance(act, Act) and task is None:
            task = Task(number, TaskSettings.from_json(act.text), _inputs(place))
        elif isinstance(act, Act) and task is not None:
            task.apply(act)
    return task, sequence


def _inputs(place: Place) -> tuple[str, str]:
    return place.config.topics.examples, place.config.topics.labels


def _since_last_commit(place: Place, number: int) -> list[Commit | Act]:
    """Return the last commit record of a task and the acts after it, or all acts if there is no commit record."""
    tail = progress_tail(place.cluster, TopicPartition(place.config.topics.progress, number))
    last = last_commit(tail)
    return tail if last is None else tail[tail.index(last) :]
