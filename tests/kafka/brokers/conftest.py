"""The broker with users and permissions."""

import os
from collections.abc import Iterator

import pytest

from stream_app.testing.local_kafka.jars import missing_tools
from tests.kafka.brokers.secure import SecureKafka, secure_kafka


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """Start one broker for all tests of a module."""
    if missing := missing_tools():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{missing} not on the PATH")
        pytest.skip(f"{missing} not on the PATH")
    with secure_kafka(tmp_path_factory.mktemp("secure")) as kafka:
        yield kafka
