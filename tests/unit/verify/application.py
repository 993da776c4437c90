"""An application whose records a test deletes and damages, for `verify`."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from stream_app.admin.models import Application
from stream_app.admin.skip import skip
from stream_app.backends.base import TopicPartition
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.progress_records import Commit
from stream_app.records import Prediction
from stream_app.serialization import codec
from stream_app.testing import InProcess
from stream_app.testing.in_process import MAX_SILENCE_S
from stream_app.verify.verify import Report, verify

SECTIONS: Mapping[str, Any] = {
    "application": {"id": "daily"},
    "join": {"ttl_ms": 200, "max_clock_lead_ms": 50},
    "metrics": {"every_labels": 20},
    "worker": {"snapshot_after_ms": 0},
    "streams": {"pumps": {"features": 2}, "fans": {"features": 1}},
    "learners": {"areba": {"method": "areba", "budget": 4}, "baseline": {"method": "baseline"}},
}
COUNT = 120


class VerifiedApplication(InProcess):
    """A worker on an in-process log, whose records a test deletes and damages."""

    def __init__(self, **sections: Mapping[str, object]) -> None:
        super().__init__(**{**SECTIONS, **sections})
        self._sent_examples = 0
        self._draw = random.Random(5)

    def day(self) -> None:
        """Send and process this many examples of each stream; the labels of the last ones arrive the next day."""
        first, self._sent_examples = self._sent_examples, self._sent_examples + COUNT
        for number in range(first, first + COUNT):
            for stream, features in (("pumps", 2), ("fans", 1)):
                self.send_example(stream, f"{number}", [self._draw.gauss(0, 1) for _ in range(features)])
                if number >= 10 and number % 7:
                    self.send_label(stream, f"{number - 10}", number % 3 == 0)
            if number % 40 == 39:
                self.run()
                for _ in range(20):  # the worker writes a snapshot and names it
                    self._worker.turn()

    def expire(self) -> tuple[int, int]:
        """Delete all inputs that are processed, and progress before the newest commit record; return the offsets."""
        reached = self._committed()
        for partition, offset in zip(self._inputs, reached, strict=True):
            self._broker.delete_before(partition, offset)
        progress = TopicPartition(self.config.topics.progress, 0)
        last = [
            row.offset for row in self.rows(progress.topic) if isinstance(codec.decode_one(row.value or b""), Commit)
        ]
        self._broker.delete_before(progress, last[-1])
        return reached[0], reached[1]

    def skip_unprocessed(self) -> tuple[int, int]:
        """Lose records that no worker processed, and let the operator accept it; return where the task continues."""
        for number in range(5):
            self.send_example("fans", f"lost-{number}", [0.5])
            self.send_label("fans", f"lost-{number}", 1)
        for partition, end in zip(self._inputs, self._sent(), strict=True):
            self._broker.delete_before(partition, end)
        self._clock.advance(MAX_SILENCE_S)
        place = Application(self.config, self._cluster, self._clock, partial(EmbeddedTransaction, self._broker))
        list(skip(place, [0]))
        self._worker = self._started()
        examples, labels = self._sent()
        return examples, labels

    def newest_prediction(self) -> int:
        """Return the offset of the newest prediction."""
        return [row.offset for row in self.rows(self.config.topics.predictions)][-1]

    def change(self, topic: str, offset: int, change: Callable[[bytes], bytes]) -> None:
        """Change the value of one record."""
        entries = self._broker._logs[TopicPartition(topic, 0)].entries
        place = next(number for number, entry in enumerate(entries) if entry.offset == offset)
        entries[place] = entries[place]._replace(value=change(entries[place].value or b""))

    def verify(self, checkpoint: Path | None = None) -> Report:
        """Check everything."""
        return verify(self._cluster, self.config, rerun=True, checkpoint=checkpoint)


def another_score(value: bytes) -> bytes:
    """Return a prediction with half its score."""
    record = codec.decode_one(value)
    assert isinstance(record, Prediction)
    return codec.encode(replace(record, score=record.score / 2))
