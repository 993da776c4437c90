"""The application of the tests in this folder that change or damage it."""

from collections.abc import Mapping

from tests.support.kafka.application import Section
from tests.support.kafka.records import StreamOf

STREAMS = (StreamOf("alpha", 0, 3), StreamOf("beta", 1, 2))

SECTIONS: Mapping[str, Section] = {
    "streams": {stream.name: {"features": stream.features} for stream in STREAMS},
    "join": {"ttl_ms": 1_500, "max_clock_lead_ms": 100},
    "worker": {"max_batch_records": 5},  # more commits than may have lost the markers of their offsets
}
