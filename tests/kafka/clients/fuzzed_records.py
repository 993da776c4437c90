"""Write fuzzed records in transactions, and read them again and again; print the memory of the process after each pass.

Run as `python -m tests.kafka.clients.fuzzed_records SERVERS PREFIX`; the topic `PREFIX + "fuzzed"` must exist. Each
line of the output is JSON: the number of records read so far, and the resident memory in bytes.
"""

import ctypes
import hashlib
import json
import random
import sys
import time
from collections.abc import Sequence

from stream_app.backends.base import Fetched, TopicPartition
from stream_app.backends.kafka.source import KafkaSource
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.record_columns import OutputRecords, RawRecords
from stream_app.records import Header
from tests.support.resident_memory import resident_bytes

BATCHES, BATCH = 40, 1_250
PASSES = 22
LARGE_EVERY = 5_000
LARGE_BYTES = 1_000_000
ABORTED_EVERY = 4
DEADLINE_S = 300.0


def _text(chance: random.Random, most: int) -> bytes:
    return chance.randbytes(chance.randrange(most))


def _headers(chance: random.Random) -> Sequence[Header]:
    names = ("", "a", "größe", "x" * 200)
    return [
        (chance.choice(names), None if chance.random() < 0.2 else _text(chance, 60)) for _ in range(chance.randrange(4))
    ]


def batch(chance: random.Random) -> OutputRecords:
    """Return records with null keys, null values, empty cells, headers, and now and then a large value."""
    keys = [None if chance.random() < 0.3 else _text(chance, 40) for _ in range(BATCH)]
    values = [None if chance.random() < 0.1 else _text(chance, 400) for _ in range(BATCH)]
    if chance.randrange(LARGE_EVERY // BATCH) == 0:
        values[chance.randrange(BATCH)] = bytes(LARGE_BYTES)
    headers = {row: found for row in range(BATCH) if chance.random() < 0.1 and (found := _headers(chance))}
    return OutputRecords.of(keys, values, [chance.randrange(1, 1 << 40) for _ in range(BATCH)], headers)


class Digest:
    """A digest of records, independent of how they come in batches."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.count = 0

    def add(self, records: OutputRecords | RawRecords) -> None:
        """Add records."""
        rows = zip(records.keys.tolist(), records.values.tolist(), records.timestamps.tolist(), strict=True)
        for row, cells in enumerate(rows):
            self._hash.update(repr((cells, [tuple(one) for one in records.headers.get(row, ())])).encode())
        self.count += len(records)

    def value(self) -> str:
        """Return the digest."""
        return self._hash.hexdigest()


def write(servers: str, place: TopicPartition) -> Digest:
    """Write all batches, of which some are aborted; return the digest of the others."""
    chance = random.Random(7)
    digest = Digest()
    transaction = KafkaTransaction(servers, f"{place.topic}-writer")
    transaction.initialise()
    for number in range(BATCHES):
        records = batch(chance)
        transaction.begin()
        offsets: list[int] = []
        transaction.produce(place, records, offsets)
        if number % ABORTED_EVERY == ABORTED_EVERY - 1:
            transaction.abort()
            continue
        transaction.commit()
        if len(offsets) != BATCH:
            raise ValueError(f"{len(offsets)} of {BATCH} records were delivered")
        digest.add(records)
    transaction.close()
    return digest


def read(servers: str, place: TopicPartition, limit: int) -> tuple[Digest, bool]:
    """Read from the start with a new member, up to the end or to `limit` records; leave while more is fetched."""
    source = KafkaSource(servers, f"{place.topic}-group")
    source.subscribe([place.topic], lambda given: source.start_at(dict.fromkeys(given, 0)), lambda _: None, 1)
    digest, at_end = Digest(), False
    deadline = time.monotonic() + DEADLINE_S
    while not at_end and digest.count < limit:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{digest.count} records")
        fetched: Sequence[Fetched] = source.poll(min(3_000, limit - digest.count), 0.1)
        for one in fetched:
            digest.add(one.records)
            at_end = one.at_end
    source.close()
    return digest, at_end


def _resident_bytes() -> int:
    """Return the resident memory, without what the allocator keeps for later."""
    ctypes.CDLL(None).malloc_trim(0)
    return resident_bytes()


def main(servers: str, prefix: str) -> None:
    """Write once, then read: a whole pass, and a part of one, in turns."""
    place = TopicPartition(f"{prefix}fuzzed", 0)
    expected = write(servers, place)
    total = 0
    for number in range(PASSES):
        found, at_end = read(servers, place, expected.count + 1)
        if not at_end or found.value() != expected.value():
            raise ValueError(f"pass {number}: {found.count} of {expected.count} records, or others than were written")
        part, _ = read(servers, place, expected.count // 2)
        total += found.count + part.count
        sys.stdout.write(json.dumps({"records": total, "resident_bytes": _resident_bytes()}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
