"""What a replay sent, as plain JSON, so that whoever reads the topics can check that it is all there.

The file is one JSON object with `format: 1`; its keys are the fields below. Readers need nothing of this package.

The values on the topics are, for each stream:

    examples topic = examples.sent + faults.duplicate_examples + faults.garbage_examples + marks_per_topic
    labels topic   = labels.sent + faults.duplicate_labels + faults.conflicting_labels + faults.garbage_labels
                     + marks_per_topic

and an example with the number i has the id `id_prefix` + i and the timestamp `start_ms` + i * `interval_ms`. The lists
of numbers name every record that a fault touched, so that no decision on them has to be guessed.

`digest` is SHA-256, in order of sending, over each record's topic (UTF-8) and a zero byte, timestamp (int64), length of
the key (uint32), key, length of the value (uint32), value; numbers little-endian.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from stream_app.errors import ConfigurationError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of one partition that this replay wrote: `first`, and `end` behind the last."""

    topic: str
    partition: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Distinct examples, or their labels, that were sent; by the class that the label says."""

    sent: int
    positive: int
    negative: int


@dataclass(frozen=True, slots=True)
class DriftPoint:
    """The first example after a drift, and its event time."""

    kind: str
    step: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class FaultCounts:
    """How many records each fault made or moved.

    Attributes:
        duplicate_examples: Examples sent once more, the same bytes.
        duplicate_labels: Labels sent once more, the same bytes.
        dropped_examples: Examples never sent; their labels were (unless they never came either).
        conflicting_labels: Second labels with the other class.
        garbage_examples: Random bytes on the examples topic.
        garbage_labels: Random bytes on the labels topic.
        out_of_order: Records sent behind later ones.
    """

    duplicate_examples: int
    duplicate_labels: int
    dropped_examples: int
    conflicting_labels: int
    garbage_examples: int
    garbage_labels: int
    out_of_order: int


@dataclass(frozen=True, slots=True)
class FaultNumbers:
    """The numbers of the examples that a fault touched, ascending; as in `FaultCounts`."""

    duplicate_examples: tuple[int, ...]
    duplicate_labels: tuple[int, ...]
    dropped_examples: tuple[int, ...]
    conflicting_labels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StreamManifest:
    """One stream.

    Attributes:
        stream: Its name, the key of its records.
        data: The data set, or the synthetic stream's spec.
        source: `shipped`, `published` or `synthetic`.
        features: Numbers in an example.
        loops: How often the data was sent, end to end.
        id_prefix: Of all ids.
        start_ms: Event time of example 0.
        interval_ms: From one example to the next.
        end_ms: The last event time, labels included: `time_ms` of the closing marks.
        label_delay: As text.
        unlabelled_share: Asked for.
        examples: Distinct examples sent.
        labels: Distinct labels sent.
        never_labelled: Examples sent whose label was not.
        marks_per_topic: Closing marks on each topic.
        faults: Counts.
        fault_numbers: Which examples.
        drifts: Known drifts.
    """

    stream: str
    data: str
    source: str
    features: int
    loops: int
    id_prefix: str
    start_ms: int
    interval_ms: int
    end_ms: int
    label_delay: str
    unlabelled_share: float
    examples: Counts
    labels: Counts
    never_labelled: int
    marks_per_topic: int
    faults: FaultCounts
    fault_numbers: FaultNumbers
    drifts: tuple[DriftPoint, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """A whole replay.

    Attributes:
        format: Of this file; 1.
        seed: Of everything random.
        start_ms: First event time.
        end_ms: Last event time.
        examples_topic: Its name.
        labels_topic: Its name.
        records: Sent to both topics, marks included.
        digest: See the module's docstring; hexadecimal.
        options: As given, in words, for people.
        ranges: Offsets written. Other writers' records may lie between.
        streams: In the order in which they were asked for.
    """

    format: int
    seed: int
    start_ms: int
    end_ms: int
    examples_topic: str
    labels_topic: str
    records: int
    digest: str
    options: Mapping[str, str]
    ranges: tuple[Range, ...]
    streams: tuple[StreamManifest, ...]

    def save(self, path: Path) -> None:
        """Write the file."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: Path) -> "Manifest":
        """Read such a file.

        Raises:
            ConfigurationError: It cannot be read, is no manifest, or is one of another format.
        """
        try:
            manifest = TypeAdapter(Manifest).validate_json(path.read_bytes())
        except OSError as error:
            raise ConfigurationError(f"{path}: {error.strerror}") from error
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the file"
            raise ConfigurationError(f"{path}: no manifest of a replay: {place}: {first['msg']}") from error
        if manifest.format != FORMAT:
            raise ConfigurationError(
                f"{path}: a manifest of format {manifest.format}; this is areba for format {FORMAT}"
            )
        return manifest
