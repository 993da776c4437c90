"""Compiling ahead: the clients of Kafka leave nothing to compile for a worker that runs."""

import subprocess
import sys

import pytest

from ops.broker import Broker
from stream_app.backends.base import TopicInfo
from stream_app.backends.kafka.cluster import KafkaCluster
from tests.support.kafka.processes import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.slow(20)]

PROGRAM = """
import sys
from numba.core.caching import Cache
from stream_app.backends.base import TopicPartition
from stream_app.cli.commands.compile import every_method
from stream_app.cli.warm_up import warm_up

def recorded(asked, signature, context, load=Cache.load_overload):
    if "/stream_app/" in asked._py_func.__code__.co_filename:
        print(asked._py_func.__qualname__)
    return load(asked, signature, context)

warm_up(every_method().task_settings())
Cache.load_overload = recorded
from tests.kafka.clients.fuzzed_records import read, write
servers, topic = sys.argv[1:]
place = TopicPartition(topic, 0)
assert read(servers, place, write(servers, place).count + 1)[1]
"""

LIMIT_S = 120.0


def test_clients_that_are_warm_ask_the_compiler_for_nothing(kafka: Broker, prefix: str) -> None:
    """A member of a group that compiled in its first batch would miss its heartbeats."""
    servers = kafka.bootstrap_servers
    assert servers is not None
    topic = f"{prefix}fuzzed"
    KafkaCluster(servers).create([TopicInfo(topic, 1, {"retention.ms": "-1"})], 1)
    command = [sys.executable, "-c", PROGRAM, servers, topic]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_S)
    assert done.stdout.split() == []
