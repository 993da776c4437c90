"""`areba state export`: the learners of a rebuilt task as files."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from stream_app.admin.history import Rebuilt
from stream_app.admin.models import Application, rebuild
from stream_app.admin.saved_models.onnx_model import onnx_model
from stream_app.backends.base import pair
from stream_app.config import Config
from stream_app.errors import ConfigurationError
from stream_app.pipeline.stream_state import without_seen
from stream_app.snapshot.model_file import ModelFile, digest_of

ID_DIGITS = 16
"""How many digits of a digest a table and the name of a file show."""

_SUFFIX = ".safetensors"

_PLAIN_NAME = re.compile(r"[a-z0-9_-]{1,60}")
"""Names that stand in the name of a file as they are."""

_SHOWN_CHARACTERS = 60
"""How much of another name does."""


class Written(NamedTuple):
    """A learner that was written to a file.

    Attributes:
        path: The file.
        file: Its content.
        champion: Whether the learner is the champion of its stream.
    """

    path: Path
    file: ModelFile
    champion: bool


def model_file(config: Config, task: int, rebuilt: Rebuilt, stream: str, learner: str) -> ModelFile:
    """Return the model file of a learner.

    Raises:
        ConfigurationError: The task has no such stream, or the stream has no such learner.
    """
    if stream not in rebuilt.task.stream_names:
        known = ", ".join(rebuilt.task.stream_names) or "none yet"
        raise ConfigurationError(f"task {task} has no stream {stream!r}; it has {known}")
    held = rebuilt.task.stream(stream)
    learners = dict(zip(held.learner_names, held.learners, strict=False))  # empty before the first example
    if learner not in learners:
        known = ", ".join(learners) or "none before its first example"
        raise ConfigurationError(f"stream {stream} has no learner {learner!r}; it has {known}")
    state = without_seen(learners[learner].arrays())
    settings = rebuilt.task.settings.of_stream(stream).learners[learner]
    source = {
        "application": config.application.id,
        "stream": stream,
        "learner": learner,
        "task": str(task),
        "offsets": pair(rebuilt.offsets),
        "digest": digest_of(state),
    }
    if held.preparation is None:
        return ModelFile(state, settings, held.features, source)
    return ModelFile(state, settings, held.features, source, held.preparation.saved(), held.preparation.feature_names())


def export(
    application: Application,
    stream: str,
    learner: str,
    path: Path,
    task: int | None,
    at: tuple[int, int] | None,
    *,
    as_onnx: bool = False,
) -> str:
    """Write a learner to a file; return a line for people.

    Without a `task`, the name of the stream decides; for `at` see `rebuild`.

    Raises:
        ConfigurationError: The task has no such stream, or the stream has no such learner, or it has no dense network
            that can be written as ONNX.
        StateError: There is no such commit, or the state cannot be rebuilt.
        UnknownOutcomeError: The broker did not answer in time.
    """
    number = application.task_of(stream, task)
    file = model_file(application.config, number, rebuild(application, number, at), stream, learner)
    path.write_bytes(onnx_model(file) if as_onnx else file.to_bytes())
    return f"{path}: {stream}/{learner} at offsets {file.source['offsets']}, digest {file.source['digest']}"


def export_task(config: Config, task: int, rebuilt: Rebuilt, folder: Path) -> Iterator[Written]:
    """Write every learner of a task to a file of its own, in a folder that is made if necessary."""
    folder.mkdir(parents=True, exist_ok=True)
    for stream in rebuilt.task.stream_names:
        held = rebuilt.task.stream(stream)
        for number, learner in enumerate(held.learner_names[: len(held.learners)]):
            path = folder / file_name(stream, learner)
            file = model_file(config, task, rebuilt, stream, learner)
            path.write_bytes(file.to_bytes())
            yield Written(path, file, number == held.join.champion)


def file_name(stream: str, learner: str) -> str:
    """Return the name of a learner's file: `STREAM.LEARNER.safetensors` if both names are plain.

    Otherwise a digest of both names follows them. So every two learners have different files, also where a file system
    ignores case, and no name is too long for a file system.
    """
    names = stream, learner
    if all(_PLAIN_NAME.fullmatch(name) for name in names):
        return f"{stream}.{learner}{_SUFFIX}"
    digest = hashlib.sha256("\0".join(names).encode()).hexdigest()[:ID_DIGITS]
    shown = (quote(name, safe="")[:_SHOWN_CHARACTERS] for name in names)
    return f"{'.'.join(shown)}.{digest}{_SUFFIX}"
