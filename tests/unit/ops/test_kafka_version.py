"""The version of the local Kafka: one pin, or what the environment names."""

import pytest

from ops.container import kafka_image
from ops.local_kafka.jars import (
    ASSETS,
    KAFKA_VERSION,
    OLDEST_KAFKA_VERSION,
    VERSION_VARIABLE,
    kafka_version,
)
from stream_app.errors import ConfigurationError


def test_the_pin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jars are fetched by replacing the pin in the pom: another number there would stay."""
    monkeypatch.delenv(VERSION_VARIABLE, raising=False)
    assert kafka_version() == KAFKA_VERSION
    assert (ASSETS / "pom.xml").read_text(encoding="utf-8").count(f"<version>{KAFKA_VERSION}</version>") == 2


def test_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jars and containers must not be of different versions."""
    monkeypatch.setenv(VERSION_VARIABLE, OLDEST_KAFKA_VERSION)
    assert kafka_version() == OLDEST_KAFKA_VERSION
    assert kafka_image().endswith(f":{OLDEST_KAFKA_VERSION}")


@pytest.mark.parametrize("text", ["3.9", "4.x", "../4.3.0"])
def test_no_version(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """The text becomes a folder's name."""
    monkeypatch.setenv(VERSION_VARIABLE, text)
    with pytest.raises(ConfigurationError):
        kafka_version()
