"""Whether the brokers under test leave out markers of transactions."""

from ops.local_kafka.jars import kafka_version

LEAVES_OUT_MARKERS = not kafka_version().startswith("3.")
"""Kafka 4.3 writes no marker for a partition that has no leader at that moment, so the transaction hangs there; Kafka
3.9 writes the marker later."""
