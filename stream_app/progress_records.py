"""The records of the progress topic: what each transaction did, and what changed results besides the inputs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Commit:
    """What one transaction did for one task: the offset ranges that it read (ends are exclusive), and what it wrote.

    `digest` is SHA-256, chained over offsets and output bytes. `records` is the number of output records. For each
    output topic, `..._start` is the end offset of the task's partition after the previous commit, and `..._records` the
    number of records that this commit wrote there. `rules` is the number of the rules that decide results, `partitions`
    the number of tasks. The topic ids tell a topic from a later one of its name (KIP-516). `stopped_streams` is the
    number of streams that are stopped after this commit, and `stopped` has the reasons of the first of them by stream,
    as a JSON object (`snapshot.stops.stopped_text`).
    """

    sequence: int
    examples_start: int
    examples_end: int
    labels_start: int
    labels_end: int
    digest: bytes
    records: int
    transactional_id: str = ""
    rules: int = 1
    partitions: int = 0
    examples_topic_id: str = ""
    labels_topic_id: str = ""
    predictions_start: int = 0
    predictions_records: int = 0
    outcomes_start: int = 0
    outcomes_records: int = 0
    metrics_start: int = 0
    metrics_records: int = 0
    dead_letters_start: int = 0
    dead_letters_records: int = 0
    predictions_topic_id: str = ""
    outcomes_topic_id: str = ""
    metrics_topic_id: str = ""
    dead_letters_topic_id: str = ""
    stopped_streams: int = 0
    stopped: str = "{}"

    @property
    def stops(self) -> Mapping[str, str]:
        """The reasons of the stopped streams that this record names, by stream."""
        found: dict[str, str] = json.loads(self.stopped)
        return found


CONFIGURATION, STOP, IMPORT, SKIP = "configuration", "stop", "import", "skip"
RESET, REPAIR, ADOPT, SNAPSHOT = "reset", "repair", "adopt", "snapshot"
REPARTITION, ARRIVAL = "repartition", "arrival"
"""The kinds of acts, see `Act`."""


@dataclass(frozen=True, slots=True)
class Act:
    """A recorded act: something that changes results and is not an input record.

    `configuration` (`text` has the settings), `stop` (the breaker stopped a stream, with the reason), `import` (a part
    of an imported learner's state), `skip` (inputs were lost), `reset` (a stream starts again), `repair` (outputs whose
    markers were lost were published again), `adopt` (others' outputs were accepted), `snapshot` (a restore may use it),
    `repartition` (the application has more partitions from here on; streams whose keys belong elsewhere have left),
    `arrival` (the state of a stream that another task had).

    It holds from the commit record with `sequence` on. `engine` is the version of areba that wrote it. A long text is
    cut into `parts` records with consecutive sequences. Only `configuration` and `repartition` have `rules` and
    `partitions`.
    """

    sequence: int
    kind: str
    engine: str
    text: str
    rules: int = 0
    partitions: int = 0
    part: int = 0
    parts: int = 1
