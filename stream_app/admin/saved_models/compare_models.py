"""`areba state diff`: compare two exported learners, as lines and as a document for JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from stream_app.snapshot.model_file import Difference, ModelFile, differences, digest_of, read_model_file


class ExportedLearner(NamedTuple):
    """Which learner a file holds; None for what the file does not say."""

    file: str
    stream: str | None
    learner: str | None
    offsets: str | None
    digest: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two exported learners, and the arrays that differ."""

    one: ExportedLearner
    two: ExportedLearner
    differences: Sequence[Difference]

    @property
    def is_equal(self) -> bool:
        """Whether both have the same state."""
        return not self.differences

    def lines(self) -> Iterator[str]:
        """Yield lines for people."""
        for file in (self.one, self.two):
            yield f"{file.file}: {file.stream}/{file.learner} at {file.offsets}, digest {file.digest}"
        for name, here, there, largest in self.differences:
            yield f"{name}: {here}" + (f", {there}" if largest is None else f", differs by up to {largest:g}")
        yield "equal" if self.is_equal else f"{len(self.differences)} arrays differ"

    def to_plain(self) -> dict[str, Any]:
        """Return the content of the JSON document."""
        return {
            "is_equal": self.is_equal,
            "one": self.one._asdict(),
            "two": self.two._asdict(),
            "differences": [found._asdict() for found in self.differences],
        }


def compare(one: Path, two: Path) -> Comparison:
    """Compare two model files.

    Raises:
        StateError: A file is not a model file.
    """
    files = read_model_file(str(one)), read_model_file(str(two))
    differing = differences(files[0].state, files[1].state)
    return Comparison(_exported(one, files[0]), _exported(two, files[1]), differing)


def _exported(path: Path, file: ModelFile) -> ExportedLearner:
    stream, learner, offsets = (file.source.get(name) for name in ("stream", "learner", "offsets"))
    return ExportedLearner(str(path), stream, learner, offsets, digest_of(file.state))
