"""How long records gather while a transaction is running, so that the next one carries more of them."""

_SHARE = 0.9
"""The part of the time without work in which records gather; the rest is for rounds that take longer than usual."""

_LEAST_WAIT_S = 0.001
"""A shorter wait for the end of a transaction says that it may have ended before the batches were computed."""

_LONGEST_S = 0.5
"""Longest time in which records gather."""


class GatheringTime:
    """The time from the start of a transaction until the next batches are computed.

    A transaction costs time for each partition, however few records it writes. A round that begins as soon as the
    transaction before it was started takes few records, and then waits. So the round begins later, such that its
    batches are computed shortly before that transaction ends: no result comes later, and each transaction carries more.

    Attributes:
        seconds: The time for the next round.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    def learn(self, waited_s: float) -> None:
        """Adapt to how long a round waited for the end of the transaction before it, once its batches were computed."""
        share = _SHARE if waited_s > _LEAST_WAIT_S else 1 / 2
        self.seconds = min(_LONGEST_S, share * (self.seconds + waited_s))
