"""The backends of the contract suite."""

from collections.abc import Callable, Iterator

import pytest

from ops.broker import Broker
from stream_app.ports import TopicInfo
from tests.contract.backends import Backend, EmbeddedBackend, KafkaBackend


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Each test runs over the in-process log and over Kafka."""
    made: Backend
    if request.param == "embedded":
        made = EmbeddedBackend()
    else:
        kafka: Broker = request.getfixturevalue("kafka")
        assert kafka.bootstrap_servers is not None
        made = KafkaBackend(kafka.bootstrap_servers)
    yield made
    made.close()


@pytest.fixture
def topic(backend: Backend, prefix: str) -> Callable[..., str]:
    """Makes a topic: `topic("in", partitions=2, **settings)`."""

    def make(name: str, partitions: int = 1, settings: dict[str, str] | None = None) -> str:
        backend.cluster().create([TopicInfo(prefix + name, partitions, settings or {})], 1)
        return prefix + name

    return make
