"""Compare the manifest of a replay, which says what was sent, with the records on the topics; pure.

The manifest is read as plain JSON of format 1, since this check shares no code with the sender. `producers/manifest.py`
writes it and explains every key. The example with the number i has the id `id_prefix` + i.
"""

import hashlib
import heapq
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from stream_app.errors import ConfigurationError
from stream_app.records import Example, Label, Mark, Reason, Side
from stream_app.verify.reference_state import Record

FORMAT = 1

_MAX_NUMBERS = 200_000_000
"""Examples of one stream in one replay; counting takes a byte for each."""

MAX_NAMED = 20
"""Ids that one finding names; further ids are counted only."""


class Sent(NamedTuple):
    """One record of a replay, as it is on its topic."""

    topic: str
    side: Side
    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes
    is_mark: bool


@dataclass(slots=True)
class _StreamCounts:
    """One stream of a manifest, and the records found so far; `seen` counts records by number, for each side."""

    data: dict[str, Any]
    seen: tuple[bytearray, bytearray] = field(default_factory=lambda: (bytearray(), bytearray()))
    marks: list[int] = field(default_factory=lambda: [0, 0])
    garbage: list[int] = field(default_factory=lambda: [0, 0])
    positive: int = 0
    wrong_times: int = 0

    def add(self, side: Side, record: Record) -> None:
        """Count one record with this stream's key."""
        content = record.meaning
        if isinstance(content, Reason) or record.key != content.stream.encode():
            self.garbage[side] += 1
        elif isinstance(content, Mark):
            self.marks[side] += content.time_ms == self.data["end_ms"]
        else:
            self._add_numbered(side, record, content)

    def _add_numbered(self, side: Side, record: Record, content: Example | Label) -> None:
        prefix = self.data["id_prefix"]
        digits = content.id[len(prefix) :]
        if not content.id.startswith(prefix) or not digits.isdecimal():
            return  # another writer's
        number = int(digits)
        counts = self.seen[side]
        if number >= _MAX_NUMBERS:
            return
        if number >= len(counts):
            counts.extend(bytes(max(number + 1 - len(counts), len(counts))))
        counts[number] = min(counts[number] + 1, 255)
        if isinstance(content, Label):
            self.positive += counts[number] == 1 and content.label == 1
        elif counts[number] == 1:
            self.wrong_times += record.time_ms != self.data["start_ms"] + number * self.data["interval_ms"]

    def faults(self) -> Iterator[str]:
        """Yield a line for each figure of the manifest that differs from the topics."""
        said, faults, numbers = self.data, self.data["faults"], self.data["fault_numbers"]
        yield from self._example_faults(said["examples"]["sent"], numbers)
        counts = self.seen[Side.LABELS]
        found = {
            "distinct labels": (sum(count > 0 for count in counts), said["labels"]["sent"]),
            "positive labels": (self.positive, said["labels"]["positive"]),
            "label records": (
                sum(counts),
                said["labels"]["sent"] + faults["duplicate_labels"] + faults["conflicting_labels"],
            ),
            "examples at another time than the manifest's": (self.wrong_times, 0),
        }
        for what, (here, there) in found.items():
            if here != there:
                yield f"{what}: {here:,} found, {there:,} sent"
        for side, name in zip(Side, ("examples", "labels"), strict=True):
            if self.marks[side] < said["marks_per_topic"]:
                yield f"closing marks of {name}: {self.marks[side]} found, {said['marks_per_topic']} sent"
            garbage = faults[f"garbage_{name}"]
            if self.garbage[side] < garbage:
                yield f"garbage among {name}: {self.garbage[side]:,} found, {garbage:,} sent"

    def _example_faults(self, sent: int, numbers: dict[str, list[int]]) -> Iterator[str]:
        """Yield a line for numbers that are there less or more often than they were sent."""
        counts = self.seen[Side.EXAMPLES]
        expected = bytearray(b"\x01") * (sent + len(numbers["dropped_examples"]))
        for number in numbers["dropped_examples"]:
            expected[number] = 0
        for number in numbers["duplicate_examples"]:
            expected[number] += 1
        size = max(len(expected), len(counts.rstrip(b"\x00")))
        if counts[:size].ljust(size, b"\x00") == expected.ljust(size, b"\x00"):
            return
        pairs = list(zip(counts[:size].ljust(size, b"\x00"), expected.ljust(size, b"\x00"), strict=True))
        for word, wrong in (
            ("missing", [number for number, (here, there) in enumerate(pairs) if here < there]),
            ("too many", [number for number, (here, there) in enumerate(pairs) if here > there]),
        ):
            if wrong:
                yield f"examples {word}: {_named(self.data['id_prefix'], wrong)}"


@dataclass(slots=True)
class ManifestCheck:
    """One manifest, and the records found so far.

    Attributes:
        path: The file.
        ranges: `(topic, partition, first, end)` of what was written.
        records: Number of all records that were sent.
        digest: SHA-256 over them in order of sending.
        streams: Counts by stream.
    """

    path: Path
    ranges: Sequence[tuple[str, int, int, int]]
    records: int
    digest: str
    streams: dict[str, _StreamCounts]

    @classmethod
    def load(cls, path: Path) -> "ManifestCheck":
        """Read the file.

        Raises:
            ConfigurationError: The file cannot be read, or is no manifest of format 1.
        """
        try:
            data = json.loads(path.read_bytes())
            if data["format"] != FORMAT:
                raise ConfigurationError(f"{path}: a manifest of format {data['format']}; this version reads {FORMAT}")
            ranges = [(part["topic"], part["partition"], part["first"], part["end"]) for part in data["ranges"]]
            streams = {stream["stream"]: _StreamCounts(stream) for stream in data["streams"]}
            return cls(path, ranges, data["records"], data["digest"], streams)
        except OSError as error:
            raise ConfigurationError(f"{path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"{path}: not a manifest of a replay ({type(error).__name__}: {error})") from error

    def end(self, topic: str, partition: int) -> int:
        """Return the offset after the last record that was sent to this partition; 0 if nothing was."""
        return max((end for name, number, _, end in self.ranges if (name, number) == (topic, partition)), default=0)

    def counter(self, topic: str, partition: int, side: Side) -> Callable[[Record], None]:
        """Return a counter of the records of this partition within the ranges of the manifest."""
        ranges = [(first, end) for name, number, first, end in self.ranges if (name, number) == (topic, partition)]
        streams = {name.encode(): stream for name, stream in self.streams.items()}

        def count(record: Record) -> None:
            stream = streams.get(record.key or b"")
            if stream is not None and any(first <= record.offset < end for first, end in ranges):
                stream.add(side, record)

        return count

    def faults(self) -> Iterator[str]:
        """Yield a line for each figure of the manifest that differs from the topics."""
        for name, stream in self.streams.items():
            for fault in stream.faults():
                yield f"{self.path.name}: stream {name}: {fault}"

    @property
    def order_is_known(self) -> bool:
        """Whether the order of sending follows from the topics: no record was sent after later ones."""
        return not any(stream.data["faults"]["out_of_order"] for stream in self.streams.values())

    def digest_of(self, partitions: Iterable[Iterator[Sent]]) -> str | None:
        """Return the digest of the records in these ranges; None if there are more or fewer than were sent.

        Records are sent in the order of event time, then examples before labels, then streams in the order of the
        manifest. A closing mark comes after all records that have its time.

        Args:
            partitions: The records of each of `ranges`.
        """
        places = {name.encode(): place for place, name in enumerate(self.streams)}
        digest, count = hashlib.sha256(), 0
        for sent in heapq.merge(*partitions, key=lambda sent: _place(sent, places)):
            digest.update(sent.topic.encode())
            digest.update(struct.pack("<xqI", sent.timestamp_ms, len(sent.key)))
            digest.update(sent.key)
            digest.update(struct.pack("<I", len(sent.value)))
            digest.update(sent.value)
            count += 1
        return digest.hexdigest() if count == self.records else None


def _place(sent: Sent, places: Mapping[bytes, int]) -> tuple[int, int, int, int]:
    return 2 * sent.timestamp_ms + sent.is_mark, sent.side, places.get(sent.key, -1), sent.offset


def _named(prefix: str, numbers: Sequence[int]) -> str:
    named = ", ".join(f"{prefix}{number}" for number in numbers[:MAX_NAMED])
    return named + (f" and {len(numbers) - MAX_NAMED:,} more" if len(numbers) > MAX_NAMED else "")
