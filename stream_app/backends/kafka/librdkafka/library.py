"""The functions of librdkafka, from the copy that confluent-kafka has loaded."""

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaError, KafkaException, cimpl

from stream_app.errors import ConfigurationError

_VERSIONS = range(0x02100000, 0x02110000)
"""The versions whose structures `messages` and `_TopicPartitionElement` describe: 2.16 (`rd_kafka_version`)."""

PRODUCER, CONSUMER = 0, 1
"""The kinds of clients (`rd_kafka_type_t`)."""

TEXT_BYTES = 512
"""Room for an error text, as librdkafka's documentation advises."""


class _TopicPartitionElement(ctypes.Structure):
    """An element of a list of partitions (`rd_kafka_topic_partition_t`)."""

    _fields_ = (
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("err", c_int),
        ("private", c_void_p),
    )


class _TopicPartitionList(ctypes.Structure):
    """A list of partitions (`rd_kafka_topic_partition_list_t`)."""

    _fields_ = (("count", c_int), ("size", c_int), ("elements", POINTER(_TopicPartitionElement)))


ERROR_CALLBACK = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)
"""Arguments: client, code, reason, opaque."""

LOG_CALLBACK = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_char_p)
"""Arguments: client, level of syslog, facility, text."""

REBALANCE_CALLBACK = ctypes.CFUNCTYPE(None, c_void_p, c_int, POINTER(_TopicPartitionList), c_void_p)
"""Arguments: client, code (assign or revoke), partitions, opaque."""

_PARTITIONS = POINTER(_TopicPartitionList)

_FUNCTIONS = MappingProxyType(
    {
        "version": (c_int, []),
        "new": (c_void_p, [c_int, c_void_p, c_char_p, c_size_t]),
        "destroy": (None, [c_void_p]),
        "poll": (c_int, [c_void_p, c_int]),
        "outq_len": (c_int, [c_void_p]),
        "fatal_error": (c_int, [c_void_p, c_char_p, c_size_t]),
        "metadata": (c_int, [c_void_p, c_int, c_void_p, POINTER(c_void_p), c_int]),
        "metadata_destroy": (None, [c_void_p]),
        "set_log_queue": (c_int, [c_void_p, c_void_p]),
        # Settings
        "conf_new": (c_void_p, []),
        "conf_destroy": (None, [c_void_p]),
        "conf_set": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]),
        "conf_set_error_cb": (None, [c_void_p, ERROR_CALLBACK]),
        "conf_set_log_cb": (None, [c_void_p, LOG_CALLBACK]),
        "conf_set_rebalance_cb": (None, [c_void_p, REBALANCE_CALLBACK]),
        "conf_set_dr_msg_cb": (None, [c_void_p, c_void_p]),
        "conf_set_closesocket_cb": (None, [c_void_p, c_void_p]),
        "conf_set_opaque": (None, [c_void_p, c_void_p]),
        # Errors
        "error_code": (c_int, [c_void_p]),
        "error_string": (c_char_p, [c_void_p]),
        "error_is_fatal": (c_int, [c_void_p]),
        "error_is_retriable": (c_int, [c_void_p]),
        "error_txn_requires_abort": (c_int, [c_void_p]),
        "error_destroy": (None, [c_void_p]),
        # Lists of partitions
        "topic_partition_list_new": (_PARTITIONS, [c_int]),
        "topic_partition_list_destroy": (None, [_PARTITIONS]),
        "topic_partition_list_add": (POINTER(_TopicPartitionElement), [_PARTITIONS, c_char_p, c_int32]),
        # Consumers
        "poll_set_consumer": (c_int, [c_void_p]),
        "subscribe": (c_int, [c_void_p, _PARTITIONS]),
        "unsubscribe": (c_int, [c_void_p]),
        "memberid": (c_void_p, [c_void_p]),
        "assign": (c_int, [c_void_p, _PARTITIONS]),
        "pause_partitions": (c_int, [c_void_p, _PARTITIONS]),
        "resume_partitions": (c_int, [c_void_p, _PARTITIONS]),
        "seek_partitions": (c_void_p, [c_void_p, _PARTITIONS, c_int]),
        "committed": (c_int, [c_void_p, _PARTITIONS, c_int]),
        "get_watermark_offsets": (c_int, [c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64)]),
        "consumer_close": (c_int, [c_void_p]),
        "ListOffsets": (None, [c_void_p, _PARTITIONS, c_void_p, c_void_p]),
        "queue_get_consumer": (c_void_p, [c_void_p]),
        "queue_new": (c_void_p, [c_void_p]),
        "queue_destroy": (None, [c_void_p]),
        "consume_batch_queue": (c_int64, [c_void_p, c_int, c_void_p, c_size_t]),
        "message_errstr": (c_char_p, [c_void_p]),
        "message_destroy": (None, [c_void_p]),
        "message_timestamp": (c_int64, [c_void_p, POINTER(c_int)]),
        "message_headers": (c_int, [c_void_p, POINTER(c_void_p)]),
        "header_get_all": (c_int, [c_void_p, c_size_t, c_void_p, c_void_p, c_void_p]),
        "topic_name": (c_char_p, [c_void_p]),
        "consumer_group_metadata": (c_void_p, [c_void_p]),
        "consumer_group_metadata_new_with_genid": (c_void_p, [c_char_p, c_int32, c_char_p, c_char_p]),
        "consumer_group_metadata_destroy": (None, [c_void_p]),
        "consumer_group_metadata_write": (c_void_p, [c_void_p, POINTER(c_void_p), POINTER(c_size_t)]),
        "consumer_group_metadata_read": (c_void_p, [POINTER(c_void_p), c_char_p, c_size_t]),
        "mem_free": (None, [c_void_p, c_void_p]),
        # Transactional producers
        "topic_new": (c_void_p, [c_void_p, c_char_p, c_void_p]),
        "topic_destroy": (None, [c_void_p]),
        "produceva": (c_void_p, [c_void_p, c_void_p, c_size_t]),
        "flush": (c_int, [c_void_p, c_int]),
        "purge": (c_int, [c_void_p, c_int]),
        "init_transactions": (c_void_p, [c_void_p, c_int]),
        "begin_transaction": (c_void_p, [c_void_p]),
        "send_offsets_to_transaction": (c_void_p, [c_void_p, _PARTITIONS, c_void_p, c_int]),
        "commit_transaction": (c_void_p, [c_void_p, c_int]),
        "abort_transaction": (c_void_p, [c_void_p, c_int]),
    }
)
"""Result and arguments of each function `rd_kafka_...`, as in `rdkafka.h`."""


class Library:
    """The functions of librdkafka, without the prefix `rd_kafka_`. They release the interpreter's lock."""

    def __init__(self, handle: ctypes.CDLL) -> None:
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(handle, f"rd_kafka_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (a function of the table above)
        raise AttributeError(f"librdkafka: {name} is not declared")

    def address(self, name: str) -> int:
        """Return the address of a function, for compiled code."""
        return ctypes.cast(getattr(self, name), c_void_p).value or 0

    def check(self, code: int) -> None:
        """Raise a `KafkaException` unless the code means success."""
        if code:
            raise KafkaException(KafkaError(code))

    def raise_error(self, error: int | None) -> None:
        """Raise a `KafkaException` with all that an error object (`rd_kafka_error_t`) says, and free the object."""
        if not error:
            return
        text = (self.error_string(error) or b"").decode(errors="replace")
        flags = {
            "fatal": bool(self.error_is_fatal(error)),
            "retriable": bool(self.error_is_retriable(error)),
            "txn_requires_abort": bool(self.error_txn_requires_abort(error)),
        }
        problem = KafkaError(self.error_code(error), text, **flags)
        self.error_destroy(error)
        raise KafkaException(problem)


@cache
def library() -> Library:
    """Return librdkafka as confluent-kafka's extension links it.

    Raises:
        ConfigurationError: The version is another than this code was written for.
    """
    found = Library(ctypes.CDLL(cimpl.__file__))
    if found.version() not in _VERSIONS:
        raise ConfigurationError(f"librdkafka has version {found.version():#x}; install confluent-kafka 2.16")
    return found
