"""What a worker knows and says about an outage of its brokers."""

import logging

import pytest
from confluent_kafka import KafkaError

from stream_app.backends.kafka.outages import MAX_CAUSES, Outages
from stream_app.backends.kafka.settings import client_settings

DOWN = "1/1 brokers are down"
REFUSED = KafkaError(
    KafkaError._TRANSPORT, "h:1/1: Connect to ipv4#h:1 failed: Connection refused (after 2ms in state CONNECT)"
)
TLS = KafkaError(KafkaError._SSL, "ssl://h:1/bootstrap: SSL handshake failed: certificate verify failed")
PASSWORD = KafkaError(
    KafkaError._AUTHENTICATION,
    "TxnCoordinator: h:1: SASL authentication error: no (after 7ms in state AUTH_REQ, 4 identical error(s) suppressed)",
)


def _lines(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    return [line.getMessage() for line in caplog.records if vars(line).get("event") == event]


def test_the_line_has_the_cause(caplog: pytest.LogCaptureFixture) -> None:
    """The client hands over the cause after the suspicion; a broken connection is only the effect of another cause."""
    outages = Outages()
    outages.suspect(DOWN)
    outages.confirm()
    assert _lines(caplog, "brokers-lost") == []
    outages.note(REFUSED)
    outages.confirm()
    refused = "h:1: Connect to ipv4#h:1 failed: Connection refused (_TRANSPORT)"
    assert _lines(caplog, "brokers-lost") == [f"brokers-lost: {DOWN}: {refused}"]
    outages.note(TLS)
    outages.note(REFUSED)
    for _ in range(10):
        outages.confirm()
    tls = "h:1: SSL handshake failed: certificate verify failed (_SSL)"
    assert _lines(caplog, "brokers-lost")[1:] == [f"brokers-lost: {DOWN}: {tls}"], "once for each cause"
    assert outages.because == f": {tls}"
    outages.end()
    assert (outages.because, outages.is_suspected) == ("", False)


def test_a_refusal_is_one_line_a_minute(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A password that had become wrong was 43 equal lines within 2 ms."""
    now_s = 1_000.0
    monkeypatch.setattr("stream_app.backends.kafka.outages.time.monotonic", lambda: now_s)
    outages = Outages()
    for _ in range(43):
        outages.note(PASSWORD)
    line = "request-refused: h:1: SASL authentication error: no (_AUTHENTICATION)"
    assert _lines(caplog, "request-refused") == [line]
    now_s += 61.0
    outages.note(PASSWORD)
    assert _lines(caplog, "request-refused") == [line, line]


def test_the_kept_errors_of_addresses_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """A client with a hundred dead addresses tries all of them, for days."""
    caplog.set_level(logging.ERROR)
    outages = Outages()
    for number in range(10 * MAX_CAUSES):
        outages.note(KafkaError(KafkaError._RESOLVE, f"h{number}:1/bootstrap: Failed to resolve 'h{number}:1'"))
    assert len(outages._causes) == MAX_CAUSES
    assert outages.because.count("Failed to resolve") == 3


def test_a_request_that_the_client_sends_again_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Every start after a kill has some; a line that recurs at WARNING hides those that need attention."""
    logger = client_settings("127.0.0.1:1", Outages(), {})["logger"]
    with caplog.at_level(logging.INFO, "areba.kafka"):
        for problem in ("concurrent transactions: retrying", "not authorized"):
            logger.log(
                logging.WARNING, "", "GETPID", "", f"Failed to acquire transactional PID from broker b/1: {problem}"
            )
    assert [record.getMessage()[-14:] for record in caplog.records] == ["not authorized"]
