"""What the transaction makes of a client that breaks down; what it does on a real broker is in tests/contract."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from stream_app.errors import ArebaError, FencedError, UnknownOutcomeError
from stream_app.kafka import KafkaTransaction


def _failure(code: int, **kind: bool) -> KafkaException:
    return KafkaException(KafkaError(code, "broken", **kind))


class _Client:
    """Stands in for the producer: every commit has to be asked for again, and a poll raises what it is told to."""

    def __init__(self, fatal: KafkaException) -> None:
        self._fatal = fatal
        self.is_broken = False

    def poll(self, _: float) -> int:
        if self.is_broken:
            raise self._fatal
        return 0

    def begin_transaction(self) -> None:
        """Nothing to do."""

    def commit_transaction(self, _: float) -> None:
        self.is_broken = True
        raise _failure(KafkaError._TIMED_OUT, retriable=True)


def _commit(transaction: KafkaTransaction, client: _Client) -> None:
    assert not client.is_broken
    transaction.begin()
    transaction.commit()


def _begin(transaction: KafkaTransaction, client: _Client) -> None:
    client.is_broken = True
    transaction.begin()


@pytest.mark.parametrize("act", [_commit, _begin])
@pytest.mark.parametrize(
    ("code", "expected"), [(KafkaError._FENCED, FencedError), (KafkaError.INVALID_TXN_STATE, UnknownOutcomeError)]
)
def test_a_fatal_error_that_a_poll_raises_restarts_the_worker(
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[KafkaTransaction, _Client], None],
    code: int,
    expected: type[ArebaError],
) -> None:
    """A worker that sleeps for longer than its transaction may last starts afresh when it wakes.

    The client raises its fatal errors out of `poll`, whatever callback it was given. Seen when a worker was frozen in
    mid-commit: it ended with a traceback and a status that tells a supervisor nothing.
    """
    transaction = KafkaTransaction("127.0.0.1:1", "someone")
    client = _Client(_failure(code, fatal=True))
    monkeypatch.setattr(transaction, "_producer", client)
    with pytest.raises(expected):
        act(transaction, client)
