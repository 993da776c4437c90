"""Lists of partitions, as librdkafka takes and fills them."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from stream_app.backends.base import TopicPartition
from stream_app.backends.kafka.librdkafka.library import Library

_OFFSET_INVALID = -1001
"""The offset of a list's element that has no offset."""


class _Element(NamedTuple):
    """What an element of a list says of a partition; `code` is 0 where there is no error."""

    partition: TopicPartition
    offset: int
    code: int


@contextmanager
def partition_list(lib: Library, offsets: Iterable[TopicPartition] | Mapping[TopicPartition, int]) -> Iterator[Any]:
    """Make a list of partitions, with offsets where the argument has them; free it in the end."""
    places = list(offsets)
    elements = lib.topic_partition_list_new(max(1, len(places)))
    try:
        for place in places:
            element = lib.topic_partition_list_add(elements, place.topic.encode(), place.partition).contents
            element.offset = offsets[place] if isinstance(offsets, Mapping) else _OFFSET_INVALID
        yield elements
    finally:
        lib.topic_partition_list_destroy(elements)


def elements_of(elements: Any) -> list[_Element]:  # noqa: ANN401  (a pointer to a structure)
    """Return the elements of a list."""
    found = []
    for number in range(elements.contents.count):
        element = elements.contents.elements[number]
        place = TopicPartition(element.topic.decode(), element.partition)
        found.append(_Element(place, element.offset, element.err))
    return found
