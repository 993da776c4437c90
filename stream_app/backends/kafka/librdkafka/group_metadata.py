"""The membership of a consumer group, as librdkafka encodes it for `rd_kafka_send_offsets_to_transaction`."""

import ctypes

from stream_app.backends.base import NO_MEMBER
from stream_app.backends.kafka.librdkafka.library import Library, library

_NO_GENERATION = -1
"""The generation of a client that is no member of the group."""

_BYTES_BEFORE_ID = len(b"CGMDv2:") + 4
"""Name of the format, and the generation."""


def encoded(lib: Library, metadata: int) -> bytes:
    """Return a membership as bytes, and free it."""
    buffer, size = ctypes.c_void_p(), ctypes.c_size_t()
    try:
        references = ctypes.byref(buffer), ctypes.byref(size)
        lib.raise_error(lib.consumer_group_metadata_write(metadata, *references))
        found = ctypes.string_at(buffer, size.value)
        lib.mem_free(None, buffer)
    finally:
        lib.consumer_group_metadata_destroy(metadata)
    return found


def empty_group(group_id: str) -> bytes:
    """Return the membership with which offsets are accepted only as long as a group has no members.

    A coordinator accepts offsets without a generation for a group without members. For any other group it looks for the
    member, and refuses a member that it does not know (UNKNOWN_MEMBER_ID). The member id must not be empty: in a
    transaction, an empty id is not looked for, as producers before KIP-447 had none.
    """
    lib = library()
    member = NO_MEMBER.encode()
    return encoded(lib, lib.consumer_group_metadata_new_with_genid(group_id.encode(), _NO_GENERATION, member, None))


def group_id_of(metadata: bytes) -> str:
    """Return the id of the group of an encoded membership."""
    return metadata[_BYTES_BEFORE_ID:].partition(b"\0")[0].decode()
