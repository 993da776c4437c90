"""A client that loses its brokers says why, while it runs."""

import logging
import time
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]  # re-exported, but not marked so

from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.kafka import timeouts
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.outages import Outages
from stream_app.backends.kafka.source import KafkaSource
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.errors import TransactionAbortedError, UnknownOutcomeError
from tests.support.kafka.secure_broker import PASSWORD, USER, SecureKafka, secure_kafka
from tests.support.kafka.waiting import DEADLINE_S

pytestmark = [pytest.mark.kafka, pytest.mark.slow(60)]

NEW_PASSWORD = "another-horse-battery"  # noqa: S105  (of a broker that lives for a minute, on this machine alone)

ATTEMPTS = 5
"""Polls during which the client tries to log in again, each several times."""

SOON_S = 15.0
"""From the moment at which the broker refuses the client to the line that says why; on a busy machine."""


def _lines(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    return [line.getMessage() for line in caplog.records if vars(line).get("event") == event]


def _poll_until_lost(source: KafkaSource, outages: Outages, cause: str, deadline_s: float) -> None:
    """Poll as an idle worker does, until the cause of the outage is known."""
    deadline = time.monotonic() + deadline_s
    while cause not in outages.because or not outages.is_confirmed:
        assert time.monotonic() < deadline, outages.because
        source.poll(10, 0.1)


def _poll_until_back(source: KafkaSource, outages: Outages) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while outages.is_suspected:
        assert time.monotonic() < deadline, outages.because
        source.poll(10, 0.1)


def _commit(transaction: KafkaTransaction, source: KafkaSource) -> None:
    transaction.begin()
    transaction.send_offsets({TopicPartition("in", 0): 0}, source.group_metadata())
    transaction.commit()


def _allow(secure: SecureKafka) -> None:
    secure.allow(
        (ResourceType.TOPIC, "in", "READ,DESCRIBE"),
        (ResourceType.GROUP, "group", "READ,DESCRIBE"),
        (ResourceType.TRANSACTIONAL_ID, "someone", "WRITE,DESCRIBE"),
    )


def test_certificates_and_passwords_that_become_wrong(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After a certificate was rotated the log said only that all brokers are down, and of a password nothing for 19 s.

    Then came 43 equal lines.
    """
    caplog.set_level(logging.WARNING, "areba")
    with secure_kafka(tmp_path) as secure:
        KafkaCluster(secure.open_servers).create([TopicInfo("in", 1, {})], 1)
        _allow(secure)
        outages = Outages(secure.servers, str(secure.ca))
        source = KafkaSource(secure.servers, "group", secure.client(), outages)
        transaction = KafkaTransaction(secure.servers, "someone", secure.client(), Outages())
        tool = KafkaCluster(secure.servers, secure.client())
        with closing(source), closing(transaction):
            source.subscribe(["in"], lambda found: source.start_at(dict.fromkeys(found, 0)), lambda _: None, 1)
            transaction.initialise()
            tool.require_broker()

            secure.rotate("other")
            _poll_until_lost(source, outages, "(_SSL)", SOON_S)
            assert "certificate" in _lines(caplog, "brokers-lost")[-1]
            with pytest.raises(UnknownOutcomeError, match="certificate"):
                tool.members("group")
            secure.rotate("good")
            _poll_until_back(source, outages)
            assert outages.because == ""

            caplog.clear()
            secure.set_password(USER, NEW_PASSWORD)
            begun_s = time.monotonic()
            secure.rotate("good")  # the clients have to log in again
            _poll_until_lost(source, outages, "(_AUTHENTICATION)", SOON_S)
            assert "_AUTHENTICATION" in _lines(caplog, "brokers-lost")[-1]
            for _ in range(ATTEMPTS):
                source.poll(10, 0.1)
            refused = len(_lines(caplog, "request-refused"))
            assert 1 <= refused <= 1 + (time.monotonic() - begun_s) / timeouts.REFUSED_INTERVAL_S, "one line a minute"
            begun_s = time.monotonic()
            with pytest.raises(TransactionAbortedError):
                _commit(transaction, source)
            assert time.monotonic() - begun_s < SOON_S
            assert len(_lines(caplog, "request-refused")) > refused, "while a transaction waits, by its own client"
            assert not any(secret in caplog.text for secret in (PASSWORD, NEW_PASSWORD))
            secure.set_password(USER, PASSWORD)
            _poll_until_back(source, outages)
