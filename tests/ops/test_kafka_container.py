"""The Kafka of the demo and of the tests, in a container."""

import gc
import os
import warnings

import pytest

from ops import container
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.topics import plan
from stream_app.config import Config


@pytest.mark.ops
def test_a_broker_runs_in_a_container_and_leaves_nothing() -> None:
    """A user's build server has an engine and no Java; brokers that stay would fill it."""
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        answers = container.engine_answers()
        gc.collect()  # where no engine answers, Docker's client leaves a socket: a later test would be blamed for it
    if not answers:
        if os.environ.get("CI") == "true":
            pytest.fail("no container engine answers")
        pytest.skip("no container engine answers")
    topics = plan(Config().topics, 2)
    with container.start() as servers:
        kafka = KafkaCluster(servers)
        kafka.create(topics, 1)
        assert {topic.partitions for topic in kafka.topics(one.name for one in topics).values()} == {2}
    assert KafkaCluster(servers).broker_count(1.0) == 0
