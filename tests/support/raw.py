"""A producer that encodes Kafka's protocol itself: it sends records that no client library sends, but brokers accept.

It sends one request per batch: Produce version 8 (KIP-467) with one record batch of format 2 (KIP-98), acks=all.
"""

import gzip
import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple, Self

TIMEOUT_S = 30.0

PRODUCE, VERSION, ALL = 0, 8, -1

GZIP = 1


class RawRecord(NamedTuple):
    """A record as it is on the wire: the name of a header is any bytes."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[bytes, bytes | None]] = ()


class RawProducer:
    """Writes to the partitions of one broker, which leads all of them."""

    def __init__(self, server: str) -> None:
        host, _, port = server.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._requests = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, topic: str, partition: int, records: Sequence[RawRecord], *, compressed: bool = False) -> int:
        """Write one batch; return the broker's error code, 0 if it accepted the batch."""
        batch = _batch(records, compressed=compressed)
        body = struct.pack(">hhi", -1, ALL, int(TIMEOUT_S * 1000))
        body += struct.pack(">i", 1) + _text(topic) + struct.pack(">iii", 1, partition, len(batch)) + batch
        self._requests += 1
        head = struct.pack(">hhi", PRODUCE, VERSION, self._requests) + _text("raw")
        self._socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        answer = self._read(struct.unpack(">i", self._read(4))[0])
        place = 4 + 4 + 2 + len(topic) + 4 + 4  # correlation id, topics, the topic's name, partitions, partition
        return int(struct.unpack_from(">h", answer, place)[0])

    def _read(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            part = self._socket.recv(count - len(found))
            assert part, "the broker has closed the connection"
            found += part
        return bytes(found)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _batch(records: Sequence[RawRecord], *, compressed: bool) -> bytes:
    first = records[0].timestamp_ms
    body = b"".join(_record(place, record, first) for place, record in enumerate(records))
    if compressed:
        body = gzip.compress(body, 1)
    times = (first, max(record.timestamp_ms for record in records))
    attributes = GZIP if compressed else 0
    checked = struct.pack(">hiqqqhii", attributes, len(records) - 1, *times, -1, -1, -1, len(records)) + body
    tail = struct.pack(">ibI", -1, 2, _crc32c(checked)) + checked
    return struct.pack(">qi", 0, len(tail)) + tail


def _record(place: int, record: RawRecord, first_ms: int) -> bytes:
    parts = [b"\0", _varint(record.timestamp_ms - first_ms), _varint(place), _cell(record.key), _cell(record.value)]
    parts.append(_varint(len(record.headers)))
    for name, value in record.headers:
        parts += [_cell(name), _cell(value)]
    content = b"".join(parts)
    return _varint(len(content)) + content


def _cell(cell: bytes | None) -> bytes:
    return b"\1" if cell is None else _varint(len(cell)) + cell


def _varint(number: int) -> bytes:
    """Encode a zigzag varint of 64 bits, which wraps as the protocol's longs do."""
    rest = ((number << 1) ^ (number >> 63)) & 0xFFFF_FFFF_FFFF_FFFF
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def _table() -> list[int]:
    """Return the table of CRC-32C (Castagnoli), RFC 3720: polynomial 0x1EDC6F41, reflected."""
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()


def _crc32c(content: bytes) -> int:
    table, value = _TABLE, 0xFFFF_FFFF
    for byte in content:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFF_FFFF
