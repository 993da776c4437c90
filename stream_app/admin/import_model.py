"""`areba state import`: a learner of a new or a stopped application goes on from a saved state.

The state is written to the task's progress, as an act, so every restore, `areba verify` and `areba state rebuild` begin
with the same bits. A running worker reads progress at its start only, and would write over the sequence: there must be
none.
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
    """Let a learner go on from a file of `areba state export`; lines that say so, and what else has changed by this.

    Args:
        place: The application.
        sender: To its brokers.
        file: The state.
        stream: Of the learner that goes on from it; may have another name than the one it was exported from.
        learner: Likewise.
        task: Its number, if the stream's name does not decide.

    Raises:
        ConfigurationError: The settings of the file cannot be taken over.
        StateError: Workers run, or the learner is of another kind; nothing was written.
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
    yield f"{stream}/{learner} of task {number} goes on from digest {digest_of(saved.state)}"


def _acts(place: Place, number: int, seed: Seed) -> tuple[list[Act], tuple[str, ...]]:
    """What is to be written, once a task went through it without complaint, and what of the configuration changes."""
    rehearsal, sequence = newest_task(place, number)
    taken_over: tuple[str, ...] = ()
    settings = place.config.task_settings()
    texts: list[tuple[str, str]] = []
    if rehearsal is None:
        rehearsal = Task(number, settings, _inputs(place))
        texts.append((CONFIGURATION, settings.to_json()))
    elif rehearsal.settings.to_json() != (settings := _as_recorded(settings, rehearsal.settings)).to_json():
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


def _as_recorded(settings: TaskSettings, recorded: TaskSettings) -> TaskSettings:
    """The settings with what a worker read of the topics."""
    return settings.model_copy(update={"dead_letter_bytes": recorded.dead_letter_bytes})


def newest_task(place: Place, number: int) -> tuple[Task | None, int]:
    """The task behind all that is recorded, and the last sequence; None and -1 where nothing is."""
    behind = _behind_last_commit(place, number)
    sequence = behind[-1].sequence if behind else -1
    if not behind or not isinstance(behind[0], Commit):
        task = None  # nothing was ever processed
    elif tripped_by(behind) is not None:
        raise StateError(f"task {number} is stopped by the breaker: `areba resume` first", ErrorCode.TASK_TRIPPED)
    else:
        history = History(place.config, place.cluster, number)
        with waiting_for(number) as told:
            task = history.rebuild(history.at(None), place.clock, told).task
    for act in whole_acts(behind):
        if isinstance(act, Act) and task is None:
            task = Task(number, TaskSettings.from_json(act.text), _inputs(place))
        elif isinstance(act, Act) and task is not None:
            task.apply(act)
    return task, sequence


def _inputs(place: Place) -> tuple[str, str]:
    return place.config.topics.examples, place.config.topics.labels


def _behind_last_commit(place: Place, number: int) -> list[Commit | Act]:
    """The last commit record of a task and the acts behind it, or all acts where there is none."""
    tail = progress_tail(place.cluster, TopicPartition(place.config.topics.progress, number))
    last = last_commit(tail)
    return tail if last is None else tail[tail.index(last) :]
