"""Logs that an older version of areba left on a broker, record by record, with their offsets.

Each file of `tests/fixtures` has all topics of an application, and what its group had committed. Records keep their
offsets: markers are gaps, and a transaction that was open when its worker was killed is open here.
"""

import gzip
import json
from base64 import b64decode
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from stream_app.backends.base import Committed, TopicInfo, TopicPartition
from stream_app.backends.memory.broker import TRANSACTION_TIMEOUT_S, EmbeddedBroker
from stream_app.backends.memory.log import LogEntry, TransactionState
from stream_app.config import Config

FIXTURES = Path(__file__).parents[1] / "fixtures"
OLD_TRANSACTIONAL_ID = "fraud-w1"


class OldRecord(NamedTuple):
    """One record, and whether its transaction was `committed`, `aborted`, or still `open`."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    state: str


class OldLog:
    """One of the files.

    Attributes:
        config: The application's own configuration.
        high: The end of each partition, markers included.
        committed: The offsets that the group had committed.
    """

    def __init__(self, name: str, bootstrap_servers: str = "127.0.0.1:9092") -> None:
        self._plain: dict[str, Any] = json.loads(gzip.decompress((FIXTURES / f"{name}.json.gz").read_bytes()))
        settings = yaml.safe_load(self._plain["config"])
        settings["kafka"]["bootstrap_servers"] = bootstrap_servers
        self.config = Config.model_validate(settings)
        prefix = self.config.kafka.topic_prefix
        places = {
            TopicPartition(prefix + topic, number): plain
            for topic, partitions in self._plain["topics"].items()
            for number, plain in enumerate(partitions)
        }
        self._rows = {place: plain["records"] for place, plain in places.items()}
        self.high: dict[TopicPartition, int] = {place: plain["high"] for place, plain in places.items()}
        self.committed = {
            TopicPartition(prefix + topic, number): Committed(offset, metadata)
            for topic, number, offset, metadata in self._plain["offsets"]
            if offset >= 0
        }

    def records(self, place: TopicPartition) -> list[OldRecord]:
        """Return the records of a partition, in order."""
        return [
            OldRecord(
                offset, timestamp, _bytes(key), _bytes(value), [(name, _bytes(text)) for name, text in headers], state
            )
            for offset, timestamp, key, value, headers, state in self._rows[place]
        ]

    def load(self, broker: EmbeddedBroker) -> None:
        """Write the log to an in-process broker that has none of its topics."""
        transaction = broker.begin(OLD_TRANSACTIONAL_ID, TRANSACTION_TIMEOUT_S)
        aborted = broker.begin("aborted", TRANSACTION_TIMEOUT_S)
        for name, count in Counter(place.topic for place in self.high).items():
            broker.create_topic(TopicInfo(name, count, {}))
        for place, high in self.high.items():
            log = broker._log(place)
            for record in self.records(place):
                of = {"open": transaction, "aborted": aborted}.get(record.state)
                log.append(LogEntry(record.offset, record.timestamp_ms, record.key, record.value, record.headers, of))
                if record.state == "open" and place not in transaction.partitions:
                    transaction.partitions[place] = log.open[transaction] = record.offset
            log.high = high
        broker.end("aborted", TransactionState.ABORTED)
        broker.groups.group(self.config.group_id).offsets.update(self.committed)
        if not transaction.partitions:
            broker.end(OLD_TRANSACTIONAL_ID, TransactionState.ABORTED)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
