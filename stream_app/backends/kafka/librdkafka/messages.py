"""Fetched messages of librdkafka, read into columns by compiled code.

A message is a `rd_kafka_message_t`; its fields are read by their places in that structure, which is public.
"""

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError

from stream_app.arrays import Integers, Longs
from stream_app.backends.base import TopicPartition
from stream_app.backends.kafka.librdkafka.library import Library
from stream_app.jit.compiler import compiled_without_refcounts, inlined_without_refcounts
from stream_app.jit.foreign import call_with_one, call_with_two, code_of_five, code_of_two, copy_bytes
from stream_app.jit.memory import bytes_at, integer_of, integers_at, longs_at, pointer_to
from stream_app.record_columns import PADDING_BYTES, BinaryColumn, CellArrays, RawRecords
from stream_app.records import UNREADABLE_HEADERS, Header

RKT, VALUE, VALUE_LENGTH, KEY, KEY_LENGTH, OFFSET = 1, 3, 4, 5, 6, 7
"""Fields of a message, in words of 64 bits."""

CODE, PARTITION = 0, 4
"""Fields of a message, in words of 32 bits."""

_END_OF_PARTITION = int(KafkaError._PARTITION_EOF)  # noqa: SLF001
_CREATE_TIME = int(TIMESTAMP_CREATE_TIME)
_LOG_APPEND_TIME = int(TIMESTAMP_LOG_APPEND_TIME)

G_TOPIC, G_PARTITION, G_RECORDS, G_VALUES, G_KEYS, G_END, G_HEADERS, G_NAMES, G_CONTENTS = range(9)
"""Columns of a table of groups: the topic's handle, the partition, the number of records, the bytes of values and
keys, the end of the partition or -1, the number of headers, the bytes of their names and of their values."""


NO_RECORD, FAILED = -1, -2
"""In place of the number of a group: the message is an end of a partition, or an error."""


class Fetch(NamedTuple):
    """The records of one partition, and its end (-1: it was not reached)."""

    partition: TopicPartition
    records: RawRecords
    end: int


class FetchError(NamedTuple):
    """An error that came in place of a message."""

    partition: TopicPartition
    offset: int
    error: KafkaError


class _Functions(NamedTuple):
    """Addresses of functions of librdkafka."""

    timestamp: int
    headers: int
    header: int
    destroy: int


class _Survey(NamedTuple):
    """What the first pass over n messages fills.

    Attributes:
        groups: int32 `[n]`, the number of the group (topic and partition) of each record; others: see `NO_RECORD`.
        header_counts: int32 `[n]`, the number of headers.
        table: int64 `[groups, 9]`, see `G_TOPIC` and the others.
        words: int64 `[5]`, room for results of functions.
    """

    groups: Integers
    header_counts: Integers
    table: Longs
    words: Longs


class _Filled(NamedTuple):
    """Columns of one group, to be filled."""

    offsets: Longs
    timestamps: Longs
    keys: CellArrays
    values: CellArrays
    header_rows: Longs
    header_names: CellArrays
    header_values: CellArrays


@inlined_without_refcounts
def _survey_headers(message: int, row: int, group: int, survey: _Survey, functions: _Functions) -> None:
    """Count the headers of a record, and their bytes."""
    out = integer_of(pointer_to(survey.words))
    survey.words[0] = 0
    if code_of_two(functions.headers, message, out) != 0:
        return
    count = 0
    while code_of_five(functions.header, survey.words[0], count, out + 8, out + 16, out + 24) == 0:
        name = bytes_at(survey.words[1])
        length = 0
        while name[length] != 0:
            length += 1
        survey.table[group, G_NAMES] += length
        survey.table[group, G_CONTENTS] += survey.words[3]
        count += 1
    survey.table[group, G_HEADERS] += count
    survey.header_counts[row] = count


@compiled_without_refcounts
def _survey(messages: Longs, survey: _Survey, functions: _Functions) -> tuple[int, int]:
    """Assign the messages to groups, and measure the groups; return the numbers of groups and of errors."""
    count, group, errors = 0, -1, 0
    table = survey.table
    for row in range(len(messages)):
        message = longs_at(messages[row])
        code = integers_at(messages[row])[CODE]
        partition = np.int64(integers_at(messages[row])[PARTITION])
        survey.groups[row] = NO_RECORD
        survey.header_counts[row] = 0
        if code not in (0, _END_OF_PARTITION):
            survey.groups[row] = FAILED
            errors += 1
            continue
        if group < 0 or table[group, G_TOPIC] != message[RKT] or table[group, G_PARTITION] != partition:
            group = 0
            while group < count and (table[group, G_TOPIC] != message[RKT] or table[group, G_PARTITION] != partition):
                group += 1
            if group == count:
                count += 1
                table[group, :] = 0
                table[group, G_TOPIC] = message[RKT]
                table[group, G_PARTITION] = partition
                table[group, G_END] = -1
        if code == _END_OF_PARTITION:
            table[group, G_END] = message[OFFSET]
            continue
        survey.groups[row] = group
        table[group, G_RECORDS] += 1
        table[group, G_VALUES] += message[VALUE_LENGTH]
        table[group, G_KEYS] += message[KEY_LENGTH]
        _survey_headers(messages[row], row, group, survey, functions)
    return count, errors


@inlined_without_refcounts
def _copy_cell(cells: CellArrays, row: int, position: int, source: int, length: int) -> int:
    """Copy a cell into its column, and return the position after it; an address of 0 is a null."""
    cells.starts[row] = position
    if source == 0:
        cells.lengths[row] = -1
        return position
    cells.lengths[row] = length
    copy_bytes(integer_of(pointer_to(cells.buffer)) + position, source, length)
    return position + length


@compiled_without_refcounts
def _fill(messages: Longs, rows: Longs, survey: _Survey, out: _Filled, functions: _Functions) -> None:
    """Copy the records of one group, the messages in these rows, into its columns."""
    key_end, value_end, name_end, content_end, header = 0, 0, 0, 0, 0
    words = integer_of(pointer_to(survey.words))
    for row in range(len(rows)):
        address = messages[rows[row]]
        message = longs_at(address)
        out.offsets[row] = message[OFFSET]
        timestamp = call_with_two(functions.timestamp, address, words)
        kind = integers_at(words)[0]
        if kind == _CREATE_TIME:
            out.timestamps[row] = max(timestamp, -1)
        else:
            out.timestamps[row] = -timestamp if kind == _LOG_APPEND_TIME else -1
        key_end = _copy_cell(out.keys, row, key_end, message[KEY], message[KEY_LENGTH])
        value_end = _copy_cell(out.values, row, value_end, message[VALUE], message[VALUE_LENGTH])
        if survey.header_counts[rows[row]] == 0:
            continue
        code_of_two(functions.headers, address, words)
        for number in range(survey.header_counts[rows[row]]):
            code_of_five(functions.header, survey.words[0], number, words + 8, words + 16, words + 24)
            name = bytes_at(survey.words[1])
            length = 0
            while name[length] != 0:
                length += 1
            out.header_rows[header] = row
            name_end = _copy_cell(out.header_names, header, name_end, survey.words[1], length)
            content_end = _copy_cell(out.header_values, header, content_end, survey.words[2], survey.words[3])
            header += 1


@compiled_without_refcounts
def _destroy(messages: Longs, functions: _Functions) -> None:
    """Free the messages."""
    for row in range(len(messages)):
        call_with_one(functions.destroy, messages[row])


def _room_for_survey(count: int) -> _Survey:
    """Return what the first pass over this number of messages fills."""
    groups, headers = np.empty(count, np.int32), np.empty(count, np.int32)
    return _Survey(groups, headers, np.empty((count, 9), np.int64), np.zeros(5, np.int64))


def _room(count: int, size: int) -> BinaryColumn:
    """Return a column to be filled."""
    buffer = np.empty(size + PADDING_BYTES, np.uint8)
    buffer[size:] = 0
    return BinaryColumn(buffer, np.empty(count, np.int64), np.empty(count, np.int64))


class MessageReader:
    """Reads batches of messages, and frees them.

    Args:
        lib: The functions of librdkafka.
    """

    def __init__(self, lib: Library) -> None:
        self._lib = lib
        names = ("message_timestamp", "message_headers", "header_get_all", "message_destroy")
        self._functions = _Functions(*map(lib.address, names))

    def read(self, messages: Longs) -> tuple[list[Fetch], list[FetchError]]:
        """Return the records by partition, in the order of their first messages, and the errors; free the messages."""
        try:
            survey = _room_for_survey(len(messages))
            groups, errors = _survey(messages, survey, self._functions)
            order = np.argsort(survey.groups, kind="stable")
            first = int(np.searchsorted(survey.groups, 0, sorter=order))
            fetched = []
            for group in survey.table[:groups]:
                last = first + int(group[G_RECORDS])
                place = self._place(int(group[G_TOPIC]), int(group[G_PARTITION]))
                records = self._records(messages, order[first:last], survey, group)
                fetched.append(Fetch(place, records, int(group[G_END])))
                first = last
            failed = np.flatnonzero(survey.groups == FAILED) if errors else ()
            return fetched, [self._error(int(messages[row])) for row in failed]
        finally:
            _destroy(messages, self._functions)

    def rehearse(self) -> None:
        """Call each compiled function for no message."""
        none = np.empty(0, np.int64)
        self.read(none)
        self._records(none, none, _room_for_survey(0), np.zeros(9, np.int64))

    def _records(self, messages: Longs, rows: Longs, survey: _Survey, group: Longs) -> RawRecords:
        """Return the records of a group: the messages in these rows."""
        count, headers = int(group[G_RECORDS]), int(group[G_HEADERS])
        keys, values = _room(count, int(group[G_KEYS])), _room(count, int(group[G_VALUES]))
        names, contents = _room(headers, int(group[G_NAMES])), _room(headers, int(group[G_CONTENTS]))
        filled = _Filled(
            offsets=np.empty(count, np.int64),
            timestamps=np.empty(count, np.int64),
            keys=keys.arrays,
            values=values.arrays,
            header_rows=np.empty(headers, np.int64),
            header_names=names.arrays,
            header_values=contents.arrays,
        )
        _fill(messages, rows, survey, filled, self._functions)
        found = _headers_by_row(filled.header_rows, names, contents) if headers else {}
        return RawRecords(filled.offsets, filled.timestamps, keys, values, found)

    def _place(self, topic: int, partition: int) -> TopicPartition:
        return TopicPartition(self._lib.topic_name(topic).decode(), partition)

    def _error(self, message: int) -> FetchError:
        words = (ctypes.c_int64 * 8).from_address(message)
        code = ctypes.c_int32.from_address(message).value
        number = ctypes.c_int32.from_address(message + 4 * PARTITION).value
        text = (self._lib.message_errstr(message) or b"").decode(errors="replace")
        place = self._place(words[RKT], number) if words[RKT] else TopicPartition("", number)
        is_fatal = code == KafkaError._FATAL  # noqa: SLF001
        return FetchError(place, words[OFFSET], KafkaError(code, text, fatal=is_fatal))


def _headers_by_row(rows: Longs, names: BinaryColumn, values: BinaryColumn) -> dict[int, Sequence[Header]]:
    """Return the headers of the records that have any; a record with a name that is not UTF-8 is marked."""
    found: dict[int, list[Header]] = {}
    unreadable = set()
    for row, name, value in zip(rows.tolist(), names.tolist(), values.tolist(), strict=True):
        try:
            found.setdefault(row, []).append(((name or b"").decode(), value))
        except UnicodeDecodeError:
            unreadable.add(row)
    return {row: UNREADABLE_HEADERS if row in unreadable else headers for row, headers in found.items()}
