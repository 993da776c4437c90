"""Logs that an older version of areba left on a broker, record by record, with their offsets.

Each file of `tests/fixtures` has all topics of an application, and what its group had committed. What no reader sees
keeps its offsets: markers are gaps, and a transaction that was open when its worker was killed is open here.
"""

import gzip
import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import yaml

from stream_app.config import Config
from stream_app.embedded import TRANSACTION_TIMEOUT_S, EmbeddedBroker, _Entry, _State
from stream_app.ports import Committed, TopicInfo, TopicPartition

FIXTURES = Path(__file__).parent / "fixtures"
OLD_TRANSACTIONAL_ID = "fraud-w1"


class OldLog:
    """One of the files."""

    def __init__(self, name: str) -> None:
        self._plain: dict[str, Any] = json.loads(gzip.decompress((FIXTURES / f"{name}.json.gz").read_bytes()))
        settings = yaml.safe_load(self._plain["config"])
        settings["kafka"] = {}
        self.config = Config.model_validate(settings)

    def load(self, broker: EmbeddedBroker) -> None:
        """Write it to an in-process log that has no such topics."""
        transaction = broker.begin(OLD_TRANSACTIONAL_ID, TRANSACTION_TIMEOUT_S)
        aborted = broker.begin("aborted", TRANSACTION_TIMEOUT_S)
        for name, partitions in self._plain["topics"].items():
            broker.create_topic(TopicInfo(name, len(partitions), {}))
            for number, plain in enumerate(partitions):
                place = TopicPartition(name, number)
                log = broker._log(place)
                for offset, timestamp, key, value, headers, state in plain["records"]:
                    of = {"open": transaction, "aborted": aborted}.get(state)
                    found = [(header, _bytes(content)) for header, content in headers]
                    log.append(_Entry(offset, timestamp, _bytes(key), _bytes(value), found, of))
                    if state == "open" and place not in transaction.partitions:
                        transaction.partitions[place] = log.open[transaction] = offset
                log.high = plain["high"]
        broker.end("aborted", _State.ABORTED)
        group = broker._group(self.config.group_id)
        for topic, number, offset, metadata in self._plain["offsets"]:
            if offset >= 0:
                group.offsets[TopicPartition(topic, number)] = Committed(offset, metadata)
        if not transaction.partitions:
            broker.end(OLD_TRANSACTIONAL_ID, _State.ABORTED)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
