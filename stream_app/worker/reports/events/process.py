"""The process of a worker, and its loop."""

from stream_app.worker.reports.events.base import WARNING, Event, event


@event()
class StepBegan(Event):
    """The main loop began a piece of work that waits for no broker, such as a batch, and that may last so long."""

    what: str
    limit_s: float


@event()
class StepProgressed(Event):
    """The current step is not stuck: its time counts from now."""


@event()
class StepEnded(Event):
    """The main loop does no work of its own."""


@event()
class RoundEnded(Event):
    """A round ended, with or without a commit, so many seconds after a broker last answered."""

    silence_s: float


@event()
class CutOff(Event):
    """No broker can be reached; `cause` says why, after a colon, as far as the clients say."""

    cause: str


@event("topics", WARNING, ": {problem}")
class TopicsAtRisk(Event):
    """A topic is missing, has grown, or has settings that put data at risk. Logged at start, and when it changes."""

    problem: str


@event("closing-failed", WARNING, "", has_traceback=True)
class ClosingFailed(Event):
    """A Kafka client could not be closed when the worker ended; the traceback follows."""
