"""What a replay sent, as JSON, so that a reader of the topics can check that nothing is missing.

The file is one JSON object with `format: 1`; its keys are the fields below. A reader does not need this package.

The values on the topics are, for each stream:

    examples topic = examples.sent + faults.duplicate_examples + faults.garbage_examples + marks_per_topic
    labels topic   = labels.sent + faults.duplicate_labels + faults.conflicting_labels + faults.garbage_labels
                     + marks_per_topic

The example with the number i has the id `id_prefix` + i and the timestamp `start_ms` + i * `interval_ms`. In a file
with ids or times of its own, rows have these, numbered in the order of time (of rows, where times are equal);
`id_prefix` is then empty, and `interval_ms` the mean. The lists of numbers name every record that a fault affected, so
that a reader knows the outcome to expect for each.

`digest` is the SHA-256 over all records in the order of sending. Of each record it covers the topic (UTF-8) and a zero
byte, the timestamp (int64), the length of the key (uint32), the key, the length of the value (uint32), and the value.
Numbers are little-endian.
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
    """The offsets that this replay wrote to one partition, from `first` up to, but not including, `end`."""

    topic: str
    partition: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Distinct examples or labels that were sent, in total and by class."""

    sent: int
    positive: int
    negative: int


@dataclass(frozen=True, slots=True)
class DriftPoint:
    """A drift: its kind, the number of the first example after it, and the event time of that example."""

    kind: str
    step: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class FaultCounts:
    """How many records each fault added, dropped or moved.

    Attributes:
        duplicate_examples: Examples sent again with the same bytes.
        duplicate_labels: Labels sent again with the same bytes.
        dropped_examples: Examples never sent. Their labels were sent, unless `unlabelled_share` left them out.
        conflicting_labels: Second labels with the other class.
        garbage_examples: Random bytes on the examples topic.
        garbage_labels: Random bytes on the labels topic.
        out_of_order: Records sent after later ones.
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
    """The numbers of the examples that a fault affected, ascending; the fields are those of `FaultCounts`."""

    duplicate_examples: tuple[int, ...]
    duplicate_labels: tuple[int, ...]
    dropped_examples: tuple[int, ...]
    conflicting_labels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StreamManifest:
    """What a replay sent of one stream.

    Attributes:
        stream: The name of the stream, which is the key of its records unless it has lanes.
        data: The name of the data set, or the description of the synthetic stream.
        source: `shipped`, `published`, `synthetic` or `file`.
        features: The number of features of an example, or of its columns.
        loops: How many times the data was sent, end to end.
        id_prefix: The beginning of all ids.
        start_ms: Event time of example 0.
        interval_ms: Event time from one example to the next.
        end_ms: The last event time, labels included: `time_ms` of the closing marks.
        label_delay: The label delay as text; `own times` if the data says when each label was known.
        unlabelled_share: The share of labels that the plan leaves out.
        examples: Distinct examples sent.
        labels: Distinct labels sent.
        never_labelled: Examples that were sent without a label.
        marks_per_topic: Closing marks on each topic.
        faults: Numbers of faults.
        fault_numbers: The examples that they affected.
        drifts: The known drifts.
        lanes: The number of its lanes, whose names are the keys of its records; null: it has none.
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
    lanes: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a replay.

    Attributes:
        format: The format of this file, 1.
        seed: The seed of delays and faults.
        start_ms: The first event time.
        end_ms: The last event time.
        examples_topic: The name of the topic of examples.
        labels_topic: The name of the topic of labels.
        records: The number of records sent to both topics, marks included.
        digest: The digest that the module's docstring defines, hexadecimal.
        options: The options of the command, as text.
        ranges: The offsets written; records of other producers may lie between them.
        streams: The streams in the order in which they were named.
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
        """Write the manifest to a file."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: Path) -> "Manifest":
        """Read a manifest from a file.

        Raises:
            ConfigurationError: The file cannot be read, is not a manifest, or has another format.
        """
        try:
            manifest = TypeAdapter(Manifest).validate_json(path.read_bytes())
        except OSError as error:
            raise ConfigurationError(f"{path}: {error.strerror}") from error
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the file"
            raise ConfigurationError(f"{path}: not a manifest of a replay: {place}: {first['msg']}") from error
        if manifest.format != FORMAT:
            raise ConfigurationError(
                f"{path}: a manifest of format {manifest.format}; this version of areba reads format {FORMAT}"
            )
        return manifest
