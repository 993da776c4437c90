"""Whether any broker can be reached, and why not."""

import logging
import re
import time
from typing import NamedTuple

from confluent_kafka import KafkaError

from stream_app import log_lines
from stream_app.backends.certificate import certificate_problem
from stream_app.backends.kafka import timeouts
from stream_app.backends.kafka.errors import CONNECTION_CAUSE_CODES, REFUSED_CODES, SSL

LOGGER = logging.getLogger("areba.kafka")

MAX_CAUSES = 8
"""Brokers of which the last error is kept; a client connects to few brokers at a time."""

_SHOWN_CAUSES = 3
"""Different causes that one line names."""

_MAX_REFUSED = 100
"""Different refusals whose last line is remembered."""

_BROKER = re.compile(r"^(?:\w+: )?(?:\w+://)?(\S+?:\d+)(?:/\S+)?: ")
"""The beginning of an error of a connection: the address, perhaps after the role of the connection or the protocol, and
before the number of the broker."""

_DURATION = re.compile(r" \(after \d+ms in state \w+(?:, \d+ identical error\(s\) suppressed)?\)")
_DIGITS = re.compile(r"\d+")


class _Cause(NamedTuple):
    """Why a broker cannot be used: the code of the client's error, whether it is the cause, and the error as text."""

    code: int
    is_cause: bool
    text: str


class Outages:
    """The state of the connection to the cluster, shared by all clients of a worker and their threads.

    It logs once that no broker can be reached, again if the cause changes, and once that a broker answers again.

    The client's error that all brokers are down is only a suspicion: the client reports it when it is served, which may
    be long after the outage. The next request to a broker confirms or refutes the suspicion.

    Args:
        servers: Addresses of brokers, separated by commas, for a closer look at a certificate; empty: no such look.
        ca_location: The client's `ssl.ca.location`.
        logs_refusals: Whether to log what a broker refuses; False: the caller raises an error with the reason.
    """

    def __init__(self, servers: str = "", ca_location: str | None = None, *, logs_refusals: bool = True) -> None:
        self._logs_refusals = logs_refusals
        self._servers = servers
        self._ca_location = ca_location
        self._reason: str | None = None
        self._down_since_s: float | None = None
        self._answered_s = time.monotonic()
        self._suspected_s: float | None = None  # when there was last a reason to suspect an outage
        self._causes: dict[str, _Cause] = {}  # by broker, the newest last
        self._certificate = ""  # what a look at the certificate found
        self._logged: frozenset[int] | None = None  # the codes of the causes that the log has; None: no line yet
        self._refused_s: dict[str, float] = {}  # when a refusal was last logged

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

    def note(self, error: KafkaError) -> None:
        """Remember an error of a connection as the reason why its broker cannot be used, and log a refusal.

        The broken connection is only the effect where the client has also reported the cause.
        """
        LOGGER.debug("Kafka client: %s", error.str())
        text = _BROKER.sub(r"\1: ", f"{_DURATION.sub('', error.str())} ({error.name()})")
        if self._logs_refusals and error.code() in REFUSED_CODES:
            self._log_refused(text)
        found = _BROKER.match(text)
        broker = found[1] if found else ""
        known = self._causes.get(broker)
        cause = _Cause(error.code(), error.code() in CONNECTION_CAUSE_CODES, text)
        if known is None or cause.is_cause or not known.is_cause:
            self._causes.pop(broker, None)
            while len(self._causes) >= MAX_CAUSES:
                self._causes.pop(next(iter(self._causes)), None)
            self._causes[broker] = cause

    def _log_refused(self, text: str) -> None:
        """Log a refusal, unless the same was logged within the last minute: a client tries again every second."""
        key, now_s = _DIGITS.sub("", text), time.monotonic()
        if now_s - self._refused_s.get(key, -timeouts.REFUSED_INTERVAL_S) < timeouts.REFUSED_INTERVAL_S:
            return
        if len(self._refused_s) >= _MAX_REFUSED:
            self._refused_s.clear()
        self._refused_s[key] = now_s
        log_lines.REQUEST_REFUSED.log(LOGGER, problem=text)

    @property
    def because(self) -> str:
        """The causes that are known, after a colon; empty: none is."""
        texts = dict.fromkeys(cause.text for cause in self._shown())
        return "".join(f"{': ' if not number else '; '}{text}" for number, text in enumerate(texts)) + self._certificate

    def _shown(self) -> list[_Cause]:
        """Return the newest causes, or the newest broken connections if there is no cause."""
        known = list(reversed([*self._causes.values()]))
        return ([cause for cause in known if cause.is_cause] or known)[:_SHOWN_CAUSES]

    def look_at_certificate(self) -> None:
        """Find out why a certificate is not trusted, if that is the cause: the client does not say."""
        is_ssl = any(cause.code == SSL for cause in self._shown())
        problem = certificate_problem(self._servers, self._ca_location) if is_ssl and self._servers else None
        self._certificate = f": {problem}" if problem else ""

    def suspect(self, reason: str) -> None:
        """Record that a client lost all its connections, or waited for a broker in vain."""
        self._reason = self._reason or reason
        self._suspected_s = time.monotonic()

    def confirm(self) -> None:
        """Record that no broker answered a request; without an earlier suspicion this does nothing.

        The client hands over the cause somewhat later than the suspicion, so the line without a cause waits for the
        second request.
        """
        if self._reason is None:
            return
        is_first = self._down_since_s is None
        self._down_since_s = self._down_since_s or time.monotonic()
        codes = frozenset(cause.code for cause in self._shown())
        is_known = any(cause.is_cause for cause in self._shown())
        if (self._logged is None and (is_known or not is_first)) or (is_known and self._logged != codes):
            self._logged = codes
            self.look_at_certificate()
            log_lines.BROKERS_LOST.log(LOGGER, problem=f"{self._reason}{self.because}")

    def end(self) -> None:
        """Record that a broker answered."""
        since_s = self._down_since_s
        if since_s is not None:
            self._suspected_s = now_s = time.monotonic()
            log_lines.BROKERS_BACK.log(LOGGER, seconds=now_s - since_s)
        self._reason = self._down_since_s = self._logged = None
        self._causes.clear()
        self._certificate = ""
        self._answered_s = time.monotonic()
