"""The backends of the contract suite."""

from collections.abc import Callable, Iterator

import pytest

from stream_app.backends.base import TopicInfo
from tests.contract.backends import Backend, embedded_backend, kafka_backend


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Run each test over the in-process log and over Kafka."""
    if request.param == "embedded":
        made = embedded_backend()
    else:
        servers = request.getfixturevalue("kafka").bootstrap_servers
        assert servers is not None
        made = kafka_backend(servers)
    with made.closing:
        yield made


@pytest.fixture
def topic(backend: Backend, prefix: str) -> Callable[..., str]:
    """Return a function that creates a topic without a retention time: the tests' records are old."""

    def make(name: str, partitions: int = 1, settings: dict[str, str] | None = None) -> str:
        backend.cluster().create([TopicInfo(prefix + name, partitions, {"retention.ms": "-1", **(settings or {})})], 1)
        return prefix + name

    return make
