"""What a front end shows of a running application: figures for each task, stream and learner, as frozen dataclasses."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from stream_app.monitor.drift import DriftSummary
from stream_app.records import Metric


@dataclass(frozen=True, slots=True)
class StreamFigures:
    """One stream. None means that a figure is not known yet.

    Attributes:
        stream: Its name.
        task: Number of the task that processed its newest record.
        learners: The newest metric of each learner, the champion first, then by name.
        labelled_per_s: Labelled examples that were learned in a second of wall time, over the last seconds.
        lag_ms: Event time from the example that was predicted last to the newest example; 0 if all are processed.
        dead_letters: Dead letters among the records that were read.
        dead_letters_are_all: Whether no older dead letters were left out.
        example_ms: Event time of its newest example.
        predicted_ms: Event time of the example that was predicted last.
        drift: Drift without labels, by the champion's newest metric; None also if the stream does not look for it.
        largest_feature_column: The column of the feature that is farthest from its reference; None without columns.
        lane_of: The stream of which it is a lane; None: it is none. The figures of a stream with lanes are the sums of
            its lanes.
    """

    stream: str
    task: int | None = None
    learners: tuple[Metric, ...] = ()
    labelled_per_s: float | None = None
    lag_ms: int | None = None
    dead_letters: int = 0
    dead_letters_are_all: bool = True
    example_ms: int | None = None
    predicted_ms: int | None = None
    drift: DriftSummary | None = None
    largest_feature_column: str | None = None
    lane_of: str | None = None

    @property
    def pending(self) -> int | None:
        """Number of examples that waited for their label at the newest metric."""
        newest = max(self.learners, key=lambda learner: learner.event_time_ms, default=None)
        return None if newest is None else newest.pending

    def to_plain(self) -> dict[str, Any]:
        """Return the figures of the stream without those of its learners, for JSON."""
        return {
            "stream": self.stream,
            "task": self.task,
            "labelled_per_s": self.labelled_per_s,
            "lag_s": None if self.lag_ms is None else self.lag_ms / 1000,
            "dead_letters": self.dead_letters,
            "dead_letters_are_all": self.dead_letters_are_all,
            "example_ms": self.example_ms,
            "predicted_ms": self.predicted_ms,
            "largest_feature_column": self.largest_feature_column,
            "lane_of": self.lane_of,
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat document for each learner, or one if no learner has a metric yet."""
        own = self.to_plain()
        rows = [own | asdict(learner) for learner in self.learners]
        return rows or [own]


@dataclass(frozen=True, slots=True)
class LiveFigures:
    """Everything that is known at one moment.

    Attributes:
        streams: Figures by stream, in the order of their names.
        unassigned: Dead letters of records that belong to none of these streams, by reason.
        left_out: Records of further streams, which are not kept.
        skipped: Records that were not read because more came than can be read.
        problems: A line for each task that has stopped, and for each topic that cannot be read.
    """

    streams: tuple[StreamFigures, ...] = ()
    unassigned: Mapping[str, int] = field(default_factory=dict)
    left_out: int = 0
    skipped: int = 0
    problems: tuple[str, ...] = ()

    def only(self, names: Collection[str], *, lanes: bool = False) -> "LiveFigures":
        """Return the figures of these streams, or of all streams if there are no names.

        Lanes are left out that are not named, unless they are asked for.
        """
        if not names:
            return replace(self, streams=tuple(one for one in self.streams if lanes or one.lane_of is None))
        unknown = sorted(set(names) - {stream.stream for stream in self.streams})
        return replace(
            self,
            streams=tuple(one for one in self.streams if one.stream in names or (lanes and one.lane_of in names)),
            problems=(*self.problems, *(f"nothing is known of stream {name!r}" for name in unknown)),
        )

    def notes(self) -> list[str]:
        """Return a line for everything that the figures of the streams do not show."""
        notes = list(self.problems)
        if not self.streams and not notes:
            notes.append("no stream is configured, and none has an output yet")
        if self.unassigned:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.unassigned.items())
            notes.append(f"dead letters of no stream shown: {reasons}")
        if self.left_out:
            notes.append(f"records of further streams that are not kept: {self.left_out:,}")
        if self.skipped:
            notes.append(f"records that were not read because too many came: {self.skipped:,}")
        return notes
