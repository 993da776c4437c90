"""The transaction with a client that fails; its behaviour on a real broker is tested in tests/contract."""

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from stream_app.backends.kafka.librdkafka.group_metadata import empty_group
from stream_app.backends.kafka.outages import Outages
from stream_app.backends.kafka.transaction import MAX_BLOCKED_CLIENTS, KafkaTransaction
from stream_app.errors import ArebaError, ConfigurationError, FencedError, TransactionAbortedError, UnknownOutcomeError


def _failure(code: int, **kind: bool) -> KafkaException:
    return KafkaException(KafkaError(code, "broken", **kind))


class _Client:
    """A fake producer: every commit has to be repeated, and a poll raises the given error."""

    def __init__(self, fatal: KafkaException) -> None:
        self._fatal = fatal
        self.is_broken = False
        self.is_initialised = False
        self.closed_connections = 0
        self.destroyed = threading.Event()

    def init_transactions(self, _: float) -> None:
        """Succeed, or raise the given error once the client is broken."""
        if self.is_broken:
            raise self._fatal
        self.is_initialised = True

    def poll(self, _: float) -> None:
        if self.is_broken:
            raise self._fatal

    def begin_transaction(self) -> None:
        """Do nothing."""

    def send_offsets(self, *_: object) -> None:
        raise self._fatal

    def commit_transaction(self, _: float) -> None:
        self.is_broken = True
        raise _failure(KafkaError._TIMED_OUT, retriable=True)

    def destroy(self) -> None:
        self.destroyed.set()


class _Clients:
    """All clients that a transaction has created."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        transaction: KafkaTransaction,
        fatal: KafkaException,
    ) -> None:
        self._fatal = fatal
        self.made: list[_Client] = []
        monkeypatch.setattr(transaction, "_create_producer", self._make)
        monkeypatch.setattr(transaction, "_check_for_outage", lambda _: None)
        monkeypatch.setattr(transaction, "_producer", self._make())
        transaction.initialise()

    def _make(self) -> _Client:
        self.made.append(_Client(self._fatal))
        return self.made[-1]


def _commit(transaction: KafkaTransaction, client: _Client) -> None:
    assert not client.is_broken
    transaction.begin()
    transaction.commit()


def _begin(transaction: KafkaTransaction, client: _Client) -> None:
    client.is_broken = True
    transaction.begin()


@pytest.mark.parametrize("act", [_commit, _begin])
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError._FENCED, FencedError),
        (KafkaError.INVALID_TXN_STATE, TransactionAbortedError),
        (KafkaError.INVALID_PRODUCER_ID_MAPPING, TransactionAbortedError),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ConfigurationError),
    ],
)
def test_a_fatal_error_that_a_poll_raises_is_classified(
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[KafkaTransaction, _Client], None],
    code: int,
    expected: type[ArebaError],
) -> None:
    """The client raises fatal errors from `poll`, even if it was given callbacks.

    A worker that was frozen during a commit would end with a traceback and a status that says nothing to a supervisor,
    and a worker without a permission would restart again and again.
    """
    transaction = KafkaTransaction("127.0.0.1:1", "someone")
    clients = _Clients(monkeypatch, transaction, _failure(code, fatal=True))
    with pytest.raises(expected):
        act(transaction, clients.made[0])


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "Read on group readers is missing"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Write on transactional id someone is missing"),
    ],
)
def test_the_refusal_of_offsets_names_the_permission_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, code: int, missing: str
) -> None:
    """An operator who reads the wrong resource grants a permission that changes nothing."""
    transaction = KafkaTransaction("127.0.0.1:1", "someone")
    _Clients(monkeypatch, transaction, _failure(code))
    transaction.begin()
    with pytest.raises(ConfigurationError, match=missing):
        transaction.send_offsets({}, empty_group("readers"))


def test_a_client_that_failed_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failed client may wait for its timeouts, or forever; a new client works immediately."""
    transaction = KafkaTransaction("127.0.0.1:1", "someone")
    clients = _Clients(monkeypatch, transaction, _failure(KafkaError._STATE))
    transaction.begin()
    with pytest.raises(TransactionAbortedError):
        transaction.commit()
    old, new = clients.made
    assert not new.is_initialised, "no broker may be there now"
    transaction.begin()
    assert new.is_initialised, "it settles what became of the transaction"
    assert old.destroyed.wait(10)


def test_a_transaction_that_took_too_long_is_not_fencing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker answers both cases alike; after an outage a worker would stop although no other producer exists."""
    transaction = KafkaTransaction("127.0.0.1:1", "someone", timeout_s=0.0)
    _Clients(monkeypatch, transaction, _failure(KafkaError.INVALID_PRODUCER_EPOCH, fatal=True))
    transaction.begin()
    with pytest.raises(TransactionAbortedError):
        transaction.commit()


def test_the_number_of_blocked_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each blocked client has threads and memory, which only a new process can release."""
    transaction = KafkaTransaction("127.0.0.1:1", "someone")
    _Clients(monkeypatch, transaction, _failure(KafkaError._STATE))
    monkeypatch.setattr("stream_app.backends.kafka.blocking_calls.BlockingCallThread.is_running", True)
    for _ in range(MAX_BLOCKED_CLIENTS):
        transaction.begin()
        with pytest.raises(TransactionAbortedError):
            transaction.commit()
    transaction.begin()
    with pytest.raises(UnknownOutcomeError, match="still block"):
        transaction.commit()


@pytest.mark.slow
def test_a_timeout_without_a_broker_is_an_outage() -> None:
    """A frozen broker breaks no connection, so nothing else may notice the outage and report it."""
    outages = Outages()
    transaction = KafkaTransaction("127.0.0.1:1", "someone", outages=outages)
    assert not outages.was_recent
    with pytest.raises(TransactionAbortedError):
        transaction._replace_client("a reason")
    assert outages.is_confirmed
    outages.end()
    assert (outages.is_confirmed, outages.was_recent) == (False, True)
    transaction.close()
