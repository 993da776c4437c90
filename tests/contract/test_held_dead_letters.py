"""`areba dlq resend` behind an open transaction of another producer, on both backends."""

import pytest

from stream_app.backends.base import TopicPartition
from stream_app.errors import ErrorCode, StateError
from tests.contract.backends import Backend, wait_for_records
from tests.contract.dead_letters import DeadLetterTopics, Letter


def test_a_transaction_that_stays_open_is_named(backend: Backend, prefix: str) -> None:
    """Half a minute of silence, and then a false reason, would be all that an operator sees."""
    here = DeadLetterTopics(backend, prefix, 1)
    here.write([Letter("undecodable", b"x", number) for number in range(3)])
    other = here.backend.transaction("outside")
    here.write([Letter("undecodable", b"x", 9)], other)
    wait_for_records(here.backend, TopicPartition(here.names.dead_letters, 0), 5)
    with pytest.raises(StateError) as caught:
        here.resend()
    assert caught.value.code is ErrorCode.HELD_BACK
    other.abort()
    assert here.resend().sent.total() == 3
