"""Lists of partitions, as librdkafka takes and fills them."""

import ctypes
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from stream_app.backends.base import Committed, TopicPartition
from stream_app.backends.kafka.librdkafka.library import Library

OFFSET_INVALID = -1001
"""The offset of a list's element that has no offset."""


class Element(NamedTuple):
    """What an element of a list says of a partition; `code` is 0 where there is no error."""

    partition: TopicPartition
    offset: int
    metadata: str
    code: int


@contextmanager
def partition_list(
    lib: Library, offsets: Iterable[TopicPartition] | Mapping[TopicPartition, int | Committed]
) -> Iterator[Any]:
    """Make a list of partitions, with offsets and metadata where the argument has them; free it in the end."""
    places = list(offsets)
    elements = lib.topic_partition_list_new(max(1, len(places)))
    try:
        for place in places:
            element = lib.topic_partition_list_add(elements, place.topic.encode(), place.partition).contents
            offset = offsets[place] if isinstance(offsets, Mapping) else OFFSET_INVALID
            if isinstance(offset, Committed):
                _set_metadata(lib, element, offset.metadata.encode())
                element.offset = offset.offset
            else:
                element.offset = offset
        yield elements
    finally:
        lib.topic_partition_list_destroy(elements)


def _set_metadata(lib: Library, element: Any, metadata: bytes) -> None:  # noqa: ANN401  (a structure)
    """Give an element its metadata, in memory that librdkafka frees together with the list.

    A zero byte ends the metadata, also in what is committed: confluent-kafka reads up to such a byte.
    """
    if metadata:
        metadata += b"\0"
        element.metadata = lib.mem_malloc(None, len(metadata))
        element.metadata_size = len(metadata)
        ctypes.memmove(element.metadata, metadata, len(metadata))


def elements_of(elements: Any) -> list[Element]:  # noqa: ANN401  (a pointer to a structure)
    """Return the elements of a list."""
    found = []
    for number in range(elements.contents.count):
        element = elements.contents.elements[number]
        metadata = ctypes.string_at(element.metadata, element.metadata_size) if element.metadata_size else b""
        metadata = metadata.rstrip(b"\0")  # see `_set_metadata`
        place = TopicPartition(element.topic.decode(), element.partition)
        found.append(Element(place, element.offset, metadata.decode(errors="replace"), element.err))
    return found
