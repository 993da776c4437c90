"""The compiled code that reads and writes structures of librdkafka, over structures that the tests make."""

import ctypes
from collections.abc import Sequence
from ctypes import CFUNCTYPE, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import Any, NamedTuple
from unittest.mock import Mock

import numpy as np
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException

from stream_app.backends.base import TopicPartition
from stream_app.backends.kafka.librdkafka.client import Callbacks, Client
from stream_app.backends.kafka.librdkafka.library import PRODUCER, library
from stream_app.backends.kafka.librdkafka.messages import Fetch, FetchError, MessageReader
from stream_app.backends.kafka.librdkafka.sending import Target, collect_offset, send_rows
from stream_app.record_columns import OutputRecords
from stream_app.records import UNREADABLE_HEADERS, Header

FIRST, SECOND = TopicPartition("examples", 0), TopicPartition("labels", 3)
TOPICS = {1: "examples", 2: "labels"}
NUMBERS = {name: number for number, name in TOPICS.items()}

END = KafkaError._PARTITION_EOF


class _Message(ctypes.Structure):
    """`rd_kafka_message_t`."""

    _fields_ = (
        ("err", c_int32),
        ("rkt", c_void_p),
        ("partition", c_int32),
        ("payload", c_char_p),
        ("len", c_size_t),
        ("key", c_char_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("private", c_int64),
    )


class _Record(NamedTuple):
    """What a test says of a message."""

    place: TopicPartition
    offset: int
    key: bytes | None = None
    value: bytes | None = b"v"
    time: tuple[int, int] = (TIMESTAMP_CREATE_TIME, 5)
    headers: Sequence[tuple[bytes, bytes | None]] = ()
    code: int = 0


class _Library:
    """The functions that the reader calls, over a list of messages; `private` is a message's place in that list."""

    def __init__(self, records: Sequence[_Record]) -> None:
        self.records = records
        self.messages = [self._message(number, record) for number, record in enumerate(records)]
        self.destroyed: list[int] = []
        words = ctypes.POINTER(c_int64)
        self._functions = {
            "message_timestamp": CFUNCTYPE(c_int64, ctypes.POINTER(_Message), ctypes.POINTER(c_int))(self._timestamp),
            "message_headers": CFUNCTYPE(c_int, ctypes.POINTER(_Message), words)(self._headers),
            "header_get_all": CFUNCTYPE(c_int, c_int64, c_int64, words, words, words)(self._header),
            "message_destroy": CFUNCTYPE(None, ctypes.POINTER(_Message))(self._destroy),
        }

    @staticmethod
    def _message(number: int, record: _Record) -> _Message:
        topic, partition = NUMBERS.get(record.place.topic), record.place.partition
        sizes = len(record.value or b""), len(record.key or b"")
        return _Message(
            record.code, topic, partition, record.value, sizes[0], record.key, sizes[1], record.offset, number
        )

    def address(self, name: str) -> int:
        return ctypes.cast(self._functions[name], c_void_p).value or 0

    def _timestamp(self, message: Any, kind: Any) -> int:  # noqa: ANN401  (pointers)
        kind[0] = self.records[message[0].private].time[0]
        time: int = self.records[message[0].private].time[1]
        return time

    def _headers(self, message: Any, found: Any) -> int:  # noqa: ANN401  (pointers)
        found[0] = message[0].private
        return 0 if self.records[message[0].private].headers else int(KafkaError._NOENT)

    def _header(self, record: int, number: int, name: Any, value: Any, size: Any) -> int:  # noqa: ANN401  (pointers)
        headers = self.records[record].headers
        if number >= len(headers):
            return int(KafkaError._NOENT)
        texts = [c_char_p(text) for text in headers[number]]
        name[0], value[0] = (ctypes.cast(text, c_void_p).value or 0 for text in texts)
        size[0] = len(headers[number][1] or b"")
        return 0

    def _destroy(self, message: Any) -> None:  # noqa: ANN401  (a pointer)
        self.destroyed.append(message[0].private)

    def topic_name(self, topic: int) -> bytes:
        return TOPICS[topic].encode()

    def message_errstr(self, _: int) -> bytes:
        return b"a reason"


def _read(records: Sequence[_Record]) -> tuple[list[Fetch], list[FetchError]]:
    lib = _Library(records)
    addresses = np.array([ctypes.addressof(message) for message in lib.messages], np.int64)
    found = MessageReader(lib).read(addresses)  # type: ignore[arg-type]
    assert lib.destroyed == list(range(len(records))), "each message is freed once"
    return found


def test_a_mixed_batch_is_split_in_order() -> None:
    """A record with the headers or the position of another would be a wrong record."""
    (first, second), errors = _read([
        _Record(FIRST, 0),
        _Record(SECOND, 0, headers=[(b"a", b"1"), (b"b", b"")]),
        _Record(FIRST, 3, key=b"k", time=(TIMESTAMP_LOG_APPEND_TIME, 7)),
        _Record(SECOND, 1, value=None),
        _Record(SECOND, 2, value=b"", headers=[(b"c", None)]),
    ])  # fmt: skip
    assert not errors
    assert (first.partition, second.partition) == (FIRST, SECOND)
    assert first.records.offsets.tolist() == [0, 3]
    assert first.records.timestamps.tolist() == [5, -7], "negative: the broker set the time"
    assert first.records.keys.tolist() == [None, b"k"]
    assert first.records.headers == {}
    assert second.records.values.tolist() == [b"v", None, b""]
    assert second.records.headers == {0: [("a", b"1"), ("b", b"")], 2: [("c", None)]}
    assert (first.end, second.end) == (-1, -1)


def test_ends_and_errors_are_no_records() -> None:
    """An end that counts as a record would be a record without a value; an error that is lost would hide a gap."""
    (first, second), errors = _read([
        _Record(FIRST, 0, code=END),
        _Record(FIRST, 0),
        _Record(FIRST, 1, code=END),
        _Record(SECOND, 9, code=END),
        _Record(SECOND, 4, code=KafkaError._AUTO_OFFSET_RESET),
        _Record(TopicPartition("", -1), -1, code=KafkaError._FATAL),
    ])  # fmt: skip
    assert (first.partition, first.records.offsets.tolist(), first.end) == (FIRST, [0], 1)
    assert (second.partition, len(second.records), second.end) == (SECOND, 0, 9)
    assert [(e.partition, e.offset, e.error.code(), e.error.fatal()) for e in errors] == [
        (SECOND, 4, KafkaError._AUTO_OFFSET_RESET, False),
        (TopicPartition("", -1), -1, KafkaError._FATAL, True),
    ]


def test_a_header_name_that_is_not_text_marks_its_record_alone() -> None:
    """Such a record becomes a dead letter; the records beside it must keep their headers."""
    (fetch,), _ = _read([
        _Record(FIRST, 0, headers=[(b"a", b"1"), (b"\xff", b"2")]),
        _Record(FIRST, 1, headers=[(b"b", b"3")]),
    ])  # fmt: skip
    assert fetch.records.headers == {0: UNREADABLE_HEADERS, 1: [("b", b"3")]}


class _Argument(ctypes.Structure):
    """`rd_kafka_vu_t`."""

    _fields_ = (("kind", c_int32), ("words", c_int64 * 8))


class _Sent(NamedTuple):
    """What the fake `produceva` was given."""

    fixed: tuple[int, ...]
    key: bytes | None
    value: bytes | None
    time: int
    headers: list[tuple[bytes, bytes | None]]


def _cell(address: int, size: int) -> bytes | None:
    return ctypes.string_at(address, size) if address else None


def _sent(arguments: Any, count: int) -> _Sent:  # noqa: ANN401  (a pointer)
    kinds = [arguments[number].kind for number in range(count)]
    assert kinds == [2, 3, 7, 6, 5, 4, 8] + [9] * (count - 7), "kinds of arguments as in rdkafka.h"
    words = [arguments[number].words for number in range(count)]
    fixed = tuple(word[0] for word in words[:4])
    headers = [(ctypes.string_at(word[0]), _cell(word[1], word[2])) for word in words[7:]]
    return _Sent(fixed, _cell(*words[4][:2]), _cell(*words[5][:2]), words[6][0], headers)


@pytest.mark.parametrize("refused", [None, 1])
def test_rows_are_produced_as_they_are(refused: int | None) -> None:
    """A cell that is cut wrongly would be a wrong record under a right checksum."""
    sent: list[_Sent] = []

    def produceva(_client: int, arguments: Any, count: int) -> int:  # noqa: ANN401  (a pointer)
        if len(sent) == refused:
            return 77
        sent.append(_sent(arguments, count))
        return 0

    function = CFUNCTYPE(c_int64, c_int64, ctypes.POINTER(_Argument), c_int64)(produceva)
    target = Target(ctypes.cast(function, c_void_p).value or 0, 10, 11, 12, 13)
    headers: dict[int, list[Header]] = {1: [("a", b"1"), ("b", None)], 2: [("c", b"")]}
    records = OutputRecords.of([b"k", None, b""], [b"v", b"", None], [5, 6, 7], headers)
    row, error = send_rows(target, records, 0)
    assert (row, error) == ((3, 0) if refused is None else (1, 77))
    fixed = (11, 12, 2, 13)
    expected = [
        _Sent(fixed, b"k", b"v", 5, []),
        _Sent(fixed, None, b"", 6, [(b"a", b"1"), (b"b", None)]),
        _Sent(fixed, b"", None, 7, [(b"c", b"")]),
    ]
    assert sent == expected[:refused]
    if refused is not None:
        refused = None
        assert send_rows(target, records, row) == (3, 0), "it continues at the row that was refused"
        assert sent == expected


def test_delivery_reports_fill_the_offsets_in_order() -> None:
    """Offsets are recorded in the outcome of each record; a failed delivery has none."""
    report = ctypes.CFUNCTYPE(None, c_int64, c_int64, c_int64)(collect_offset().address)
    written = np.zeros(4, np.int64)
    for offset, code, where in ((7, 0, written), (8, 1, written), (9, 0, None), (10, 0, written)):
        private = 0 if where is None else where.ctypes.data
        message = _Message(code, 1, 0, None, 0, None, 0, offset, private)
        report(0, ctypes.addressof(message), 0)
    assert written.tolist() == [2, 7, 10, 0]


def test_structures_are_those_of_the_loaded_library() -> None:
    """Another version may order the fields in another way, and every record would be read wrongly."""
    assert 0x021000FF <= library().version() < 0x02110000
    assert ctypes.sizeof(_Argument) == 72
    assert ctypes.sizeof(_Message) == 72


def _ignore(*_: object) -> None:
    """Take what a callback gets."""


@pytest.mark.parametrize("settings", [{"no.such.setting": "1"}, {"linger.ms": "soon"}, {"transaction.timeout.ms": 1}])
def test_a_wrong_setting_is_an_error(settings: dict[str, object]) -> None:
    """A setting that is ignored would leave a user with another behaviour than the one in his file."""
    with pytest.raises(KafkaException):
        Client(PRODUCER, {"transactional.id": "a", **settings}, Callbacks(_ignore, _ignore))


def test_an_exception_in_a_callback_is_raised_later() -> None:
    """C code calls the callbacks, and no exception passes through C: a worker would continue without the error."""
    client = Client(PRODUCER, {"bootstrap.servers": "127.0.0.1:1"}, Callbacks(_ignore, _ignore))
    for problem in (ValueError("first"), TypeError("second")):
        client.keeping_errors(Mock(side_effect=problem))
    with pytest.raises(ValueError, match="first"):
        client.checked()
    client.checked()
    client.destroy()
    with pytest.raises(RuntimeError):
        client.reaches_broker(0.0)
