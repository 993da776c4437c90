"""Each row of docs/changes.md, and sequences of rows, on a running application: `areba verify` finds nothing then.

A check of `verify` that compares a record with the record before it must know which acts lie between.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pytest

from stream_app.backends.base import TopicPartition
from stream_app.config import Config
from stream_app.progress_records import RESET, Act, Commit
from stream_app.records import Mark, MarkKind, Metric
from stream_app.serialization.codec import decode_one, encode
from stream_app.testing import InProcess
from stream_app.verify import verify
from stream_app.verify.results import Code
from tests.support.formats.metrics import with_main_window

Sections: TypeAlias = Mapping[str, Any]
Step: TypeAlias = "Sections | Callable[[Application], None]"

AREBA, BASELINE = {"method": "areba"}, {"method": "baseline"}
BOTH = {"areba": AREBA, "baseline": BASELINE}

BASE: Sections = {
    "application": {"id": "app"},
    "streams": {"pumps": {"features": 2}, "valves": {"features": 2, "champion": "areba"}},
    "learners": BOTH,
    "metrics": {"every_labels": 10},
    "predictions": "all",
    "join": {"ttl_ms": 300, "max_clock_lead_ms": 10, "max_pending_per_stream": 40},
}

EACH = 220
"""Examples of each stream between two steps: a drift in the middle is flagged."""


class Application:
    """An application in this process, whose classes change sides in the middle of each portion of records."""

    def __init__(self, **sections: Any) -> None:  # noqa: ANN401  (sections of a file)
        self.sections = {**BASE, **sections}
        self.log = InProcess(**self.sections)
        self._draw = random.Random(1)
        self._number = 0

    def send(self, count: int = EACH) -> None:
        """Send examples of all streams and their labels, of which some come late, twice, corrected, or never."""
        streams = [*self.sections["streams"], "unknown"]
        for number in range(self._number, self._number + count):
            flipped = (2 * (number - self._number) >= count) != (self._number // EACH % 2 == 1)
            for stream in streams:
                x = [self._draw.gauss(0, 1), self._draw.gauss(0, 1)]
                self.log.send_example(stream, f"e{number}", x)
                label = int((x[0] > 0) != flipped)
                if number % 11:
                    self.log.send_label(stream, f"e{number}", label)
                if number % 7 == 0:
                    self.log.send_label(stream, f"e{number}", 1 - label, revision=1)
                if number % 5 == 0 and number > 100:
                    self.log.send_label(stream, f"e{number - 100}", label)
        self._number += count
        self.log.run()

    def restart(self, sections: Sections) -> None:
        """Continue with other settings."""
        self.sections = {**self.sections, **sections}
        application = {"instance": "in-process", **self.sections["application"]}
        self.log.config = Config.model_validate({**self.sections, "application": application})
        self.log.crash()

    def act(self, kind: str, text: str) -> None:
        """Write an act, as a tool does, while no worker runs."""
        topic = self.log.config.topics.progress
        records = [decode_one(row.value or b"") for row in self.log.rows(topic)]
        last = max(record.sequence for record in records if isinstance(record, Commit | Act))
        self.append(topic, None, encode(Act(last + 1, kind, "0", text)))
        self.log.crash()

    def append(self, topic: str, key: bytes | None, value: bytes) -> None:
        """Write one record."""
        self.log._broker.append(TopicPartition(topic, 0), [(key, value, 1, ())])

    def verified(self) -> list[str]:
        """Return what `verify` finds with a fresh run."""
        return list(map(str, verify.verify(self.log._cluster, self.log.config, rerun=True).findings))


def reset(application: Application) -> None:
    """Reset a stream."""
    application.act(RESET, "pumps")


def promote(application: Application) -> None:
    """Promote the other learner."""
    application.append(
        application.log.config.topics.examples,
        b"pumps",
        encode(Mark("pumps", MarkKind.PROMOTE, learner="baseline")),
    )


def decide(kind: str, number: float | None = None) -> Callable[[Application], None]:
    """Return the promotion of a threshold."""
    value = encode(Mark("pumps", MarkKind.DECIDE, threshold_kind=kind, threshold=number))
    return lambda application: application.append(application.log.config.topics.examples, b"pumps", value)


def threshold(**pumps: float) -> dict[str, Any]:
    """Return the streams, of which one has this threshold."""
    return {"streams": {**BASE["streams"], "pumps": {"features": 2, "threshold": pumps}}}


def end(application: Application) -> None:
    """Send a pair of `advance` marks, which publish metrics without a label."""
    application.log.end_stream("pumps")


def streams(pumps: str, valves: str) -> dict[str, Any]:
    """Return the streams with these champions."""
    return {"streams": {"pumps": {"features": 2, "champion": pumps}, "valves": {"features": 2, "champion": valves}}}


def learner(**settings: Any) -> Sections:  # noqa: ANN401  (settings of a learner)
    """Return settings in which one learner differs."""
    return {"learners": {"areba": AREBA, "baseline": {**BASELINE, **settings}}}


def join(**settings: Any) -> Sections:  # noqa: ANN401  (settings of the join)
    """Return settings of the join."""
    return {"join": {**BASE["join"], **settings}}


ONE = {"learners": {"areba": AREBA}}
TWO = {"learners": BOTH}
NEW = {"learners": {**BOTH, "new": {"method": "sliding", "window": 30, "scaler": "standard"}}}

ROWS: Mapping[str, Sequence[Step]] = {
    "a new stream": [{"streams": {**BASE["streams"], "unknown": {"features": 2}}}],
    "features": [{"streams": {"pumps": {}, "valves": {"features": 2}}}, TWO],
    "champion": [promote, streams("baseline", "areba")],
    "threshold": [decide("alerts", 0.2), decide("alerts", 0.2), threshold(score=0.4)],
    "a new learner": [NEW],
    "a learner taken out": [ONE],
    "order of learners": [{"learners": {"baseline": BASELINE, "areba": AREBA}, **streams("areba", "areba")}],
    "learning_rate": [learner(learning_rate=0.5)],
    "l2": [learner(l2=0.1)],
    "theta": [{"learners": {"areba": {**AREBA, "theta": 0.9}, "baseline": BASELINE}}],
    "method": [learner(method="sliding", window=20)],
    "budget": [{"learners": {"areba": {**AREBA, "budget": 4}, "baseline": BASELINE}}],
    "scaler": [learner(scaler="standard")],
    "hidden": [learner(hidden=[3])],
    "predictions": [{"predictions": "champion"}],
    "unknown_streams": [{"unknown_streams": "model"}],
    "every_labels": [{"metrics": {"every_labels": 3}}],
    "max_streams_per_task": [{"limits": {"max_streams_per_task": 2}}],
    "change_detector": [{"metrics": {"every_labels": 10, "change_detector": "ddm"}}],
    "change_detector none": [{"metrics": {"every_labels": 10, "change_detector": "none"}}],
    "ttl_ms": [join(ttl_ms=20), join(ttl_ms=900)],
    "max_pending_per_stream": [join(max_pending_per_stream=3), join(max_pending_per_stream=90)],
    "max_waiting": [join(max_waiting_per_stream=1), join(max_waiting_bytes_per_stream=300)],
    "max_closed_per_stream": [join(max_closed_per_stream=5), join(max_closed_per_stream=90_000)],
    "closed_ttl_ms": [join(closed_ttl_ms=5), join(closed_ttl_ms=10**6)],
    "max_open_marks_per_stream": [end, join(max_open_marks_per_stream=1)],
    "corrections": [join(corrections="correct"), join(corrections="first"), join(corrections="correct")],
    "corrections and what is remembered": [
        join(corrections="correct"),
        join(corrections="correct", max_closed_per_stream=9),
    ],
    "reset": [reset],
}
"""What an operator does: settings, or a command. The names of the settings are those of the page."""

SEQUENCES: Mapping[str, Sequence[Step]] = {
    "out and in again": [ONE, TWO],
    "out and in again, twice": [ONE, TWO, ONE, TWO],
    "out and in again at once": [ONE, TWO, end],
    "new, out, new": [NEW, TWO, NEW],
    "reset, then out and in again": [reset, ONE, TWO],
    "out and in again, then reset": [ONE, TWO, reset],
    "reset twice": [reset, reset],
    "reset and a mark": [end, reset, end],
    "a new learner and a reset": [NEW, reset, TWO, NEW],
    "detector, out, detector, in": [
        {"metrics": {"every_labels": 10, "change_detector": "ddm"}, **ONE},
        {"metrics": {"every_labels": 10, "change_detector": "hddm"}, **TWO},
    ],
    "detector and reset": [{"metrics": {"every_labels": 10, "change_detector": "ddm"}}, reset, end],
    "method there and back": [learner(method="sliding", window=20), TWO],
    "promoted, then out and in again": [
        promote,
        NEW | streams("baseline", "areba"),
        TWO,
        NEW,
    ],
    "thresholds of marks and files": [
        decide("alerts", 0.3),
        NEW | threshold(probability=0.3),
        decide("alerts", 0.3),
        TWO | threshold(alerts=0.3),
        threshold(),
        decide("costs"),
    ],
    "a promoted threshold, then reset": [decide("alerts", 0.3), promote, reset, ONE, TWO, decide("score", 0.4)],
    "predictions there and back": [{"predictions": "champion"}, ONE, {"predictions": "all"}, TWO],
    "corrections, reset": [join(corrections="correct"), reset, join(corrections="correct", ttl_ms=50), ONE, TWO],
    "two workers with different files": [ONE, TWO] * 4,
    "two workers with different joins": [join(max_pending_per_stream=3), join(max_pending_per_stream=40)] * 3,
}


def run(application: Application, steps: Sequence[Step], count: int) -> None:
    """Take each step, and send records after it."""
    application.send()
    application.send()
    for step in steps:
        if callable(step):
            step(application)
        else:
            application.restart(step)
        application.send(count)


@pytest.mark.slow(60)
@pytest.mark.parametrize("name", ROWS)
def test_each_row(name: str) -> None:
    """The outputs are right, so `verify` must not cry wolf: from then on nobody would believe it."""
    application = Application()
    run(application, ROWS[name], EACH)
    assert application.verified() == []


@pytest.mark.slow(60)
@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("count", [EACH, 4])
def test_sequences(name: str, count: int) -> None:
    """Changes follow each other after many labels, or before the next record of metrics."""
    application = Application()
    run(application, SEQUENCES[name], count)
    application.send()
    assert application.verified() == []


def test_the_drift_is_flagged() -> None:
    """Without flagged changes, none of these tests would notice that their number begins again."""
    application = Application()
    run(application, [], EACH)
    assert {metric.learner for metric in application.log.metrics() if metric.changes} >= {"baseline"}


@pytest.mark.slow(5)
def test_a_reset_hides_nothing() -> None:
    """A wrong figure from before a reset, or from after it, is found still: a reset does not clean the topics."""
    application = Application()
    run(application, [reset], EACH)
    assert application.verified() == []
    topic = application.log.config.topics.metrics
    entries = application.log._broker._log(TopicPartition(topic, 0)).entries
    pumps = [number for number, entry in enumerate(entries) if entry.key == b"pumps"]
    for number in (pumps[3], pumps[-3]):
        entry = entries[number]
        metric = decode_one(entry.value or b"")
        assert isinstance(metric, Metric)
        wrong = with_main_window(metric, negative_total=metric.main_window.negative_total + 1)
        entries[number] = entry._replace(value=encode(wrong))
        [finding] = verify.verify(application.log._cluster, application.log.config).findings
        assert (finding.code, finding.offset) == (Code.WRONG_METRIC, entry.offset)
        entries[number] = entry
