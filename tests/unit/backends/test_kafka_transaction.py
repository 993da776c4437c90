"""What the transaction makes of a client that breaks down; what it does on a real broker is in tests/contract."""

from collections.abc import Callable
from typing import NoReturn

import pytest
from confluent_kafka import KafkaError, KafkaException

from stream_app.backends.kafka.outages import Outages
from stream_app.backends.kafka.transaction import MAX_BLOCKED_CLIENTS, KafkaTransaction
from stream_app.errors import ArebaError, ConfigurationError, FencedError, TransactionAbortedError, UnknownOutcomeError


def _failure(code: int, **kind: bool) -> KafkaException:
    return KafkaException(KafkaError(code, "broken", **kind))


class _Client:
    """Stands in for the producer: every commit has to be asked for again, and a poll raises what it is told to."""

    def __init__(self, fatal: KafkaException, *, logs: bool = False) -> None:
        self._fatal = fatal
        self._logs = logs
        self.is_broken = False
        self.is_initialised = False
        self.is_closed = False

    def init_transactions(self, _: float) -> None:
        """What this client is for; raises what it is told to."""
        if self.is_broken:
            self._raise()
        self.is_initialised = True

    def poll(self, _: float) -> int:
        if self.is_broken:
            self._raise()
        return 0

    def _raise(self) -> NoReturn:
        """Raise as the client's C code does, which may call the log callback while its error is set."""
        if self._logs:
            raise SystemError("a callback returned a result with an exception set") from self._fatal
        raise self._fatal

    def begin_transaction(self) -> None:
        """Nothing to do."""

    def commit_transaction(self, _: float) -> None:
        self.is_broken = True
        raise _failure(KafkaError._TIMED_OUT, retriable=True)

    def close(self) -> None:
        self.is_closed = True


class _Clients:
    """All clients that a transaction has made."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        transaction: KafkaTransaction,
        fatal: KafkaException,
        *,
        logs: bool = False,
    ) -> None:
        self._fatal = fatal
        self._logs = logs
        self.made: list[_Client] = []
        monkeypatch.setattr(transaction, "_create_producer", self._make)
        monkeypatch.setattr(transaction, "_check_for_outage", lambda _: None)
        monkeypatch.setattr(transaction, "_producer", self._make())
        transaction.initialise()

    def _make(self) -> _Client:
        self.made.append(_Client(self._fatal, logs=self._logs))
        return self.made[-1]


def _commit(transaction: KafkaTransaction, client: _Client) -> None:
    assert not client.is_broken
    transaction.begin()
    transaction.commit()


def _begin(transaction: KafkaTransaction, client: _Client) -> None:
    client.is_broken = True
    transaction.begin()


@pytest.mark.parametrize("act", [_commit, _begin])
@pytest.mark.parametrize("logs", [False, True])
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError._FENCED, FencedError),
        (KafkaError.INVALID_TXN_STATE, TransactionAbortedError),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ConfigurationError),
    ],
)
def test_a_fatal_error_that_a_poll_raises_is_told(
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[KafkaTransaction, _Client], None],
    logs: bool,
    code: int,
    expected: type[ArebaError],
) -> None:
    """The client raises its fatal errors out of `poll`, whatever callback it was given.

    Seen when a worker was frozen in mid-commit: it ended with a traceback and a status that tells a supervisor nothing.
    A permission that is missing made a worker start itself afresh ten times.
    """
    transaction = KafkaTransaction("127.0.0.1:1", "someone")
    clients = _Clients(monkeypatch, transaction, _failure(code, fatal=True), logs=logs)
    with pytest.raises(expected):
        act(transaction, clients.made[0])


def test_a_client_that_failed_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may wait for its own timeouts after an outage, or for ever; a new one is at work at once."""
    transaction = KafkaTransaction("127.0.0.1:1", "someone")
    clients = _Clients(monkeypatch, transaction, _failure(KafkaError._STATE))
    transaction.begin()
    with pytest.raises(TransactionAbortedError):
        transaction.commit()
    old, new = clients.made
    assert not new.is_initialised, "no broker may be there now"
    transaction.begin()
    assert new.is_initialised, "it settles what became of the transaction"
    transaction._blocked_threads[0]._thread.join(10)
    assert old.is_closed


def test_a_transaction_that_took_too_long_is_not_fencing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker answers both in one way; after an outage it was our own transaction."""
    transaction = KafkaTransaction("127.0.0.1:1", "someone", timeout_s=0.0)
    _Clients(monkeypatch, transaction, _failure(KafkaError.INVALID_PRODUCER_EPOCH, fatal=True))
    transaction.begin()
    with pytest.raises(TransactionAbortedError):
        transaction.commit()


def test_clients_that_do_not_come_back_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has threads and memory: at some point only a new process is rid of them."""
    transaction = KafkaTransaction("127.0.0.1:1", "someone")
    _Clients(monkeypatch, transaction, _failure(KafkaError._STATE))
    monkeypatch.setattr("stream_app.backends.kafka.blocking_calls.BlockingCallThread.is_running", True)
    for _ in range(MAX_BLOCKED_CLIENTS):
        transaction.begin()
        with pytest.raises(TransactionAbortedError):
            transaction.commit()
    transaction.begin()
    with pytest.raises(UnknownOutcomeError, match="clients still block"):
        transaction.commit()


def test_who_waits_in_vain_looks_for_a_broker() -> None:
    """Nobody else may notice: a frozen broker breaks no connection. The worker's loop polls until it is back."""
    outages = Outages()
    transaction = KafkaTransaction("127.0.0.1:1", "someone", outages=outages)
    assert not outages.was_recent
    with pytest.raises(TransactionAbortedError):
        transaction._replace_client("a reason")
    assert outages.is_confirmed
    outages.end()
    assert (outages.is_confirmed, outages.was_recent) == (False, True)
    transaction.close()
