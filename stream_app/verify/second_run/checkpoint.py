"""The file in which `areba verify` keeps where it ended: by partition a position, and the state of the task there.

The first line is JSON with the format, the application and a SHA-256 of all that follows. The second line is JSON with
the positions. The blobs of the tasks follow, as a snapshot has them (safetensors). Nothing in the file is executed.

The state is that of the verifier's own run, whose every output was equal to the published one. So a run that continues
here takes nothing from the workers.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from stream_app import __version__
from stream_app.errors import ConfigurationError
from stream_app.pipeline.task import Task
from stream_app.progress_records import Commit
from stream_app.snapshot.format import FORMAT as SNAPSHOT_FORMAT
from stream_app.snapshot.format import Manifest, snapshot_key
from stream_app.snapshot.segments import Blob, Book

FORMAT = 1

Offset = Annotated[int, Field(ge=0)]


class CheckedApplication(NamedTuple):
    """The application whose topics were checked: its id, the name of its progress topic, and the ids of both inputs."""

    application: str
    progress: str
    topic_ids: tuple[str, str]


class RunEnd(BaseModel):
    """Where a run ended in one partition, which is after a commit record.

    Attributes:
        since: The input offsets (examples, labels) at which the first run of the chain began.
        progress_offset: The offset of the commit record.
        outputs: By output topic, the offset after the last record that was compared.
        manifest: Sequence, digest and input offsets of the commit record, and the blobs of the task.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    since: tuple[Offset, Offset]
    progress_offset: Offset
    outputs: dict[str, Offset]
    manifest: Manifest


class Ended(NamedTuple):
    """A position and the blobs that its manifest lists, by key."""

    position: RunEnd
    blobs: Mapping[str, bytes]


class _Header(BaseModel):
    """The first line of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: int
    application: str
    progress: str
    topic_ids: tuple[str, str]
    sha256: str


_ENDS = TypeAdapter(list[RunEnd])


def ended(partition: int, task: Task, commit: Commit, progress_offset: int, since: tuple[int, int]) -> Ended:
    """Return what the file holds of a task that has processed everything up to this commit record, but the outputs."""
    drafted = Book().draft(task.states(), snapshot_key(commit.sequence, 0))
    blobs = [blob for blob in drafted if isinstance(blob, Blob)]  # an empty book lists no older entries
    manifest = Manifest(
        format=SNAPSHOT_FORMAT,
        engine=__version__,
        partition=partition,
        sequence=commit.sequence,
        digest=commit.digest.hex(),
        offsets=(commit.examples_end, commit.labels_end),
        settings=task.settings.to_json(),
        entries=tuple(blob.entry(0) for blob in blobs),
        stopped=dict(task.stopped),
        partitions=task.partitions,
    )
    position = RunEnd(since=since, progress_offset=progress_offset, outputs={}, manifest=manifest)
    return Ended(position, {blob.key: blob.content for blob in blobs})


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """The file of one application.

    Attributes:
        path: Where it is.
        identity: The application that is checked now.
    """

    path: Path
    identity: CheckedApplication

    def read(self) -> Mapping[int, Ended]:
        """Return where the last run ended, by partition; empty if there is no file yet.

        Raises:
            ConfigurationError: The file cannot be read, is damaged, has another format or is of another application, or
                there is no such directory.
        """
        if not self.path.parent.is_dir():
            raise ConfigurationError(f"{self.path}: there is no such directory")
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigurationError(f"{self.path}: {error.strerror}") from error
        line, _, body = content.partition(b"\n")
        self._check(line, body)
        positions, _, blobs = body.partition(b"\n")
        result: dict[int, Ended] = {}
        start = 0
        try:
            for position in _ENDS.validate_json(positions):
                held: dict[str, bytes] = {}
                for entry in position.manifest.entries:
                    held[entry.key] = blobs[start : start + entry.length]
                    start += entry.length
                result[position.manifest.partition] = Ended(position, held)
        except ValidationError as problem:
            raise ConfigurationError(f"{self.path}: not a checkpoint ({problem.error_count()} wrong fields)") from None
        return result

    def _check(self, line: bytes, body: bytes) -> None:
        """Refuse a file that this version cannot read, that is damaged, or that is of another application."""
        try:
            plain = json.loads(line)
        except (ValueError, RecursionError):
            plain = None
        if not isinstance(plain, dict) or "format" not in plain:
            raise ConfigurationError(f"{self.path}: not a checkpoint of `areba verify`")
        if plain["format"] != FORMAT:
            raise ConfigurationError(
                f"{self.path}: a checkpoint of format {plain['format']!r:.20}; this version reads {FORMAT}"
            )
        try:
            header = _Header.model_validate_json(line)
        except ValidationError as problem:
            raise ConfigurationError(f"{self.path}: not a checkpoint ({problem.error_count()} wrong fields)") from None
        if header.sha256 != sha256(body).hexdigest():
            raise ConfigurationError(f"{self.path}: the checkpoint is damaged: its SHA-256 does not match")
        found = CheckedApplication(header.application, header.progress, header.topic_ids)
        if found[:2] != self.identity[:2]:
            raise ConfigurationError(
                f"{self.path}: a checkpoint of {found.application} ({found.progress}), not of "
                f"{self.identity.application} ({self.identity.progress})"
            )
        for before, now in zip(found.topic_ids, self.identity.topic_ids, strict=True):
            if before and now and before != now:
                raise ConfigurationError(
                    f"{self.path}: an input topic was deleted and created again: its id is {now}, the checkpoint has "
                    f"{before}"
                )

    def write(self, partitions: Iterable[Ended]) -> None:
        """Replace the file; after a crash there is the old one or the new one.

        Raises:
            ConfigurationError: The file cannot be written.
        """
        parts = list(partitions)
        positions = _ENDS.dump_json([part.position for part in parts])
        blobs = [part.blobs[entry.key] for part in parts for entry in part.position.manifest.entries]
        digest = sha256(positions + b"\n")
        for blob in blobs:
            digest.update(blob)
        header = _Header(format=FORMAT, **self.identity._asdict(), sha256=digest.hexdigest())
        try:
            with NamedTemporaryFile(dir=self.path.parent, prefix=f".{self.path.name}.", delete=False) as file:
                try:
                    file.writelines([header.model_dump_json().encode(), b"\n", positions, b"\n", *blobs])
                    file.flush()
                    os.fsync(file.fileno())
                    Path(file.name).replace(self.path)
                except BaseException:
                    with suppress(OSError):
                        Path(file.name).unlink()
                    raise
            directory = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise ConfigurationError(f"{self.path}: {error.strerror}") from error
