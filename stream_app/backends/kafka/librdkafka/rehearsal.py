"""Run the compiled code of this package once without a record, which compiles the code or loads it from the cache."""

from stream_app.backends.kafka.librdkafka.connections import count_and_close
from stream_app.backends.kafka.librdkafka.library import library
from stream_app.backends.kafka.librdkafka.messages import MessageReader
from stream_app.backends.kafka.librdkafka.sending import Target, collect_offset, send_rows
from stream_app.record_columns import OutputRecords


def rehearse() -> None:
    """Read no message and send no record."""
    MessageReader(library()).rehearse()
    send_rows(Target(0, 0, 0, 0, 0), OutputRecords.of((), (), ()), 0)
    collect_offset()
    count_and_close()
