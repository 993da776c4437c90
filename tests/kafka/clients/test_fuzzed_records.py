"""The columns of fetched and produced records over a million fuzzed records: none is changed, and no memory is lost."""

import json
import subprocess
import sys

import pytest

from ops.broker import Broker
from stream_app.backends.base import TopicInfo
from stream_app.backends.kafka.cluster import KafkaCluster
from tests.support.kafka.processes import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.slow(60)]

RECORDS = 1_000_000
WARM_PASSES = 5
GROWTH_BYTES = 12_000_000
"""What the allocator may keep after the first passes; a leak of every hundredth value would be twice as much."""

LIMIT_S = 400.0


def test_fuzzed_records_are_neither_changed_nor_kept(kafka: Broker, prefix: str) -> None:
    """Compiled code reads and frees the client's memory: a mistake would change a record, or fill a worker's memory."""
    servers = kafka.bootstrap_servers
    assert servers is not None
    topic = TopicInfo(f"{prefix}fuzzed", 1, {"retention.ms": "-1", "max.message.bytes": "2000000"})
    KafkaCluster(servers).create([topic], 1)
    command = [sys.executable, "-m", "tests.kafka.clients.fuzzed_records", servers, prefix]
    run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_S)
    passes = [json.loads(line) for line in run.stdout.splitlines()]
    assert passes[-1]["records"] >= RECORDS
    resident = [one["resident_bytes"] for one in passes[WARM_PASSES:]]
    grown = min(resident[-3:]) - min(resident[:3])  # the least ones: what is on its way to or from the broker varies
    assert grown < GROWTH_BYTES, resident
