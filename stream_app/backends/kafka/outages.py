"""Whether any broker can be reached."""

import logging
import time

from stream_app import events
from stream_app.backends.kafka import timeouts

LOGGER = logging.getLogger("areba.kafka")


class Outages:
    """The state of the connection to the cluster, shared by all clients of a worker and their threads.

    It logs once that no broker can be reached, and once that a broker answers again.

    The client's error that all brokers are down is only a suspicion: the client reports it when it is served, which may
    be long after the outage. The next request to a broker confirms or refutes the suspicion.
    """

    def __init__(self) -> None:
        self._reason: str | None = None
        self._down_since_s: float | None = None
        self._answered_s = time.monotonic()
        self._suspected_s: float | None = None  # when there was last a reason to suspect an outage

    def since_answer_s(self) -> float:
        """Return the seconds since a broker last answered, or since this object was created."""
        return time.monotonic() - self._answered_s

    @property
    def is_suspected(self) -> bool:
        """Whether a client has lost all brokers and no broker has answered since."""
        return self._reason is not None

    @property
    def is_confirmed(self) -> bool:
        """Whether no broker answered the last request."""
        return self._down_since_s is not None

    def down_s(self) -> float:
        """Return the seconds since it was confirmed that no broker answers; 0 if a broker answers."""
        since_s = self._down_since_s
        return 0.0 if since_s is None else time.monotonic() - since_s

    @property
    def was_recent(self) -> bool:
        """Whether an outage, or the suspicion of an outage, existed within the last `OUTAGE_EFFECTS_S`."""
        return self._suspected_s is not None and time.monotonic() - self._suspected_s < timeouts.OUTAGE_EFFECTS_S

    def suspect(self, reason: str) -> None:
        """Record that a client lost all its connections, or waited for a broker in vain."""
        self._reason = self._reason or reason
        self._suspected_s = time.monotonic()

    def confirm(self) -> None:
        """Record that no broker answered a request; without an earlier suspicion this does nothing."""
        if self._down_since_s is None and self._reason is not None:
            self._down_since_s = time.monotonic()
            events.log(events.BROKERS_LOST, LOGGER, problem=self._reason)

    def end(self) -> None:
        """Record that a broker answered."""
        since_s = self._down_since_s
        if since_s is not None:
            self._suspected_s = now_s = time.monotonic()
            events.log(events.BROKERS_BACK, LOGGER, seconds=now_s - since_s)
        self._reason = self._down_since_s = None
        self._answered_s = time.monotonic()
