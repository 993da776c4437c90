"""The kinds of faults, how a seed chooses among them, and the count of those that hit.

Each seed enables a random part of the kinds, each at its own rate (swarm testing: a world in which everything fails
equally often never gets as far as one in which only commits fail).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Fault(StrEnum):
    """Kinds of faults; a fault counts where it hit, not where it was planned."""

    CRASH = "crash"
    STALL = "stall"
    OUTAGE = "outage"
    JOIN = "join"
    LEAVE = "leave"
    EVICT = "evict"
    TWIN = "twin"
    FENCE = "fence"
    ABORT = "abort"
    COMMITTED_UNHEARD = "committed unheard"
    COMMIT_LOST = "commit lost"
    COMMIT_LATE = "commit late"
    UNANSWERED = "unanswered"
    LATE_ANSWER = "late answer"
    SHORT_POLL = "short poll"
    EMPTY_POLL = "empty poll"
    LAG = "lag"
    LATE_END = "late end"
    LATE_RECORDS = "late records"
    OPEN_INPUT = "open input"
    ABORTED_INPUT = "aborted input"
    DEPLOY = "deploy"
    COMPACT = "compaction"
    RETENTION = "retention"
    LOSS = "loss"
    MARKERS = "markers"
    COMMIT_MARKERS = "commit markers"
    RESUMED_TWICE = "resumed twice"
    RESET = "reset"
    SHRUNK = "shrunk"
    GROUP_OFFSETS = "group offsets"
    GROWN = "grown"
    ABORT_AHEAD = "abort ahead"
    QUIET = "quiet"
    SLOW = "slow"
    COMMANDS = "commands"
    ERASE = "erase"


MEANINGS: Mapping[Fault, str] = {
    Fault.CRASH: "a process is killed at a port call",
    Fault.STALL: "it stands still for up to a minute and a half, then continues",
    Fault.OUTAGE: "it reaches no broker for a while",
    Fault.JOIN: "another process joins the group",
    Fault.LEAVE: "a process stops cleanly and leaves",
    Fault.EVICT: "the group removes a live member",
    Fault.TWIN: "a second process of one name is started",
    Fault.FENCE: "the broker raises the epoch of a transactional id",
    Fault.ABORT: "a transaction is aborted at one of its calls",
    Fault.COMMITTED_UNHEARD: "committed, but the outcome is reported as unknown",
    Fault.COMMIT_LOST: "not committed, and the outcome is reported as unknown",
    Fault.COMMIT_LATE: "the outcome is reported as unknown; it is committed later, unless the epoch is over",
    Fault.UNANSWERED: "a request (offsets, watermarks, fencing) gets no answer",
    Fault.LATE_ANSWER: "a question that nobody waits for gets its answer up to 17 s later",
    Fault.SHORT_POLL: "a poll gives one to three records",
    Fault.EMPTY_POLL: "a poll gives nothing",
    Fault.LAG: "one side of a task gives nothing for a while",
    Fault.LATE_END: "the end of a partition is reported some polls later",
    Fault.LATE_RECORDS: "a reader of progress returns nothing although there is more",
    Fault.OPEN_INPUT: "a producer's transaction holds the end of an input back",
    Fault.ABORTED_INPUT: "a producer's transaction is aborted",
    Fault.COMPACT: "the cleaner removes what it may from the changelog",
    Fault.RETENTION: "inputs are deleted below a snapshot of their task",
    Fault.LOSS: "inputs are deleted that a task still needs; an operator lets it continue without them",
    Fault.MARKERS: "an aborted transaction gets no markers: its records and offsets hang",
    Fault.COMMIT_MARKERS: "a committed transaction lacks markers: some of its records, or its offsets, hang",
    Fault.DEPLOY: "new processes start with another configuration: more streams, more learners, others",
    Fault.RESUMED_TWICE: "two operators resume a stream at once",
    Fault.RESET: "an operator resets a stream with pending examples and waiting labels",
    Fault.SHRUNK: "max.message.bytes of the dead letters is lowered: some records and letters are too large",
    Fault.GROUP_OFFSETS: "the group's offsets are deleted or reset at any time",
    Fault.ABORT_AHEAD: "a transaction is aborted at its commit, after the next batch was computed",
    Fault.QUIET: "nobody sends anything for days or weeks; brokers delete and forget what is too old",
    Fault.SLOW: "records come minutes apart, while their topics keep them for an hour and a half",
    Fault.COMMANDS: "two commands that write progress run at once, or while workers start",
    Fault.ERASE: "an operator erases examples of a stream while its workers run",
    Fault.GROWN: "topics are given more partitions; a record is sent to each new partition of an input",
}

COSTLY = frozenset(
    {
        Fault.CRASH,
        Fault.STALL,
        Fault.OUTAGE,
        Fault.EVICT,
        Fault.FENCE,
        Fault.ABORT,
        Fault.COMMITTED_UNHEARD,
        Fault.COMMIT_LOST,
        Fault.COMMIT_LATE,
        Fault.UNANSWERED,
        Fault.MARKERS,
    }
)
"""Faults that cause a restore; a seed has a budget of them, so that it ends."""

ANYWHERE = (Fault.CRASH, Fault.STALL, Fault.OUTAGE)
"""Faults at any call of any port."""

DISASTERS = (
    Fault.JOIN,
    Fault.LEAVE,
    Fault.EVICT,
    Fault.TWIN,
    Fault.FENCE,
    Fault.DEPLOY,
    Fault.COMPACT,
    Fault.RETENTION,
    Fault.LOSS,
    Fault.RESET,
    Fault.SHRUNK,
    Fault.GROUP_OFFSETS,
    Fault.GROWN,
    Fault.COMMANDS,
    Fault.ERASE,
)
"""Faults at any time, independent of what a worker does."""


class Event(StrEnum):
    """Consequences of faults: places that a fault must have reached for the count to mean anything."""

    CRASH_IN_TRANSACTION = "crash in a transaction"
    STALL_IN_TRANSACTION = "stall in a transaction"
    CRASH_IN_RESTORE = "crash while restoring"
    REBALANCE = "rebalance"
    ZOMBIE_REFUSED = "zombie refused: its generation is over"
    FENCED = "fenced"
    FENCED_AGAIN = "fenced again: ends with status 5"
    TIMED_OUT = "transaction timed out"
    COMMITTED_LATE = "late commit came through"
    CLIENT_REPLACED = "client of a lost transaction replaced"
    RESTARTED = "process restarted itself"
    STARTED = "process started by its supervisor"
    CONTINUED = "task came back and continued without a restore"
    RESTORED = "task restored from progress"
    LOADED = "task restored from a snapshot"
    SAVED = "snapshot complete"
    TRIMMED = "unneeded progress records deleted"
    PARKED = "task parked: its inputs are gone"
    SKIPPED = "gap accepted"
    RESET = "stream was reset"
    CLOSED_BY_RESET = "record closed by the reset of its stream"
    OUTDATED = "snapshot dropped by later owners while it was read"
    RESTORE_BROKEN_OFF = "restore interrupted by a rebalance"
    HELD = "task waits for a hanging transaction"
    SWEPT = "hanging transaction ended by the abort of another one of its id"
    REPAIRED = "committed outputs published again"
    TAKEN_OVER = "hanging transaction of a dead process ended"
    STREAM_STOPPED = "stream stopped by the breaker"
    STREAM_RESUMED = "stream resumed"
    CONFIGURED = "changed configuration recorded"
    REFUSED_OLD_CONFIGURATION = "old configuration refused"
    AHEAD = "batch computed while the transaction before it was running"
    AHEAD_DISCARDED = "transaction aborted after the next batch was computed"
    CUT = "batch cut for what it could close"
    EXPIRED = "unlabelled"
    LEFT_DUE = "more was due than one record closes"
    EVICTED = "evicted"
    DUPLICATE = "duplicate"
    DEAD_LETTER = "dead letter"
    TOO_LARGE = "transaction aborted because of a record that is too large"
    LEFT_OUT = "dead letter without a part of its record"
    PROMOTED = "promoted"
    DECIDED = "decided by a promoted threshold"
    CORRECTED = "correction"
    OFFSETS_CHANGED = "offsets of the group deleted or reset"
    UNREPAIRABLE = "task parked: its topic no longer accepts what has to be published again"
    UNCONFIGURED = "prediction for a stream that is not configured"
    QUIET_DAYS = "quiet days have passed"
    SAVED_IN_TIME = "everything saved before a quiet time"
    OFFSETS_EXPIRED = "offsets of a group without members expired"
    ID_EXPIRED = "transactional id expired while its producer was idle"
    SLOW_RECORDS = "record after a pause of minutes"
    REFUSED_TIME = "record refused: its event time is too old for its topic"
    ODD_TIME = "event time of another year, of the next hour, or in seconds"
    OUTLIER = "feature far from all others"
    COLUMNS = "example with values by column"
    LATE_LABEL = "late label"
    LABELLED_DAYS_LATER = "label that came days after its example"
    KEPT_CHECKED = "verified and inspected with what retention had left"
    COMMAND_DONE = "command done beside another"
    COMMAND_REFUSED = "command refused beside another"
    COMMAND_KILLED = "command killed"
    ERASED = "examples erased"
    ERASED_AGAIN = "nothing left to erase"
    PURGED = "nothing erased is left in snapshots"
    IMPORTED = "model put back"
    PROMOTED_BY_COMMAND = "promoted by a command"
    SENT_BACK = "dead letter sent back"
    TAKEN_OUT = "learner taken out"
    PUT_IN_AGAIN = "learner put in again"
    AREBA = "learned by areba"
    QBR = "learned by qbr"
    BASELINE = "learned by baseline"
    SLIDING = "learned by sliding"
    ADAPTIVE_CS = "learned by adaptive_cs"
    OOB = "learned by oob"
    UOB = "learned by uob"
    OOB_SINGLE = "learned by oob_single"
    RELAY = "learned by relay"
    AUTOGRAD = "learned by autograd"


@dataclass(frozen=True, slots=True)
class Swarm:
    """The faults of one seed.

    Attributes:
        rates: Probability at each opportunity, for the enabled kinds.
        budget: The number of costly faults at most.
        focus: The port call at which the faults of `ANYWHERE` are much more frequent; "" for none.
        longest_stall_s: The duration of the longest stall.
    """

    rates: Mapping[Fault, float]
    budget: int
    focus: str
    longest_stall_s: float


CALLS = (
    "initialise",
    "subscribe",
    "poll",
    "group_metadata",
    "ask",
    "answer",
    "reader",
    "reader.poll",
    "reader.close",
    "start_at",
    "stop_reading",
    "begin",
    "produce",
    "flush",
    "send_offsets",
    "commit",
    "close",
    "clock",
)

FOCUS_FACTOR = 12.0

_RANGES: Mapping[Fault, tuple[float, float]] = {
    **dict.fromkeys(ANYWHERE, (0.0005, 0.01)),
    **dict.fromkeys(DISASTERS, (0.05, 0.5)),
    Fault.LOSS: (0.01, 0.1),
    Fault.RESET: (0.01, 0.1),
    Fault.GROUP_OFFSETS: (0.05, 0.5),
    Fault.COMMANDS: (0.02, 0.2),
    Fault.QUIET: (0.02, 0.3),
    Fault.SLOW: (0.005, 0.05),
    Fault.MARKERS: (0.05, 0.5),
    Fault.COMMIT_MARKERS: (0.03, 0.1),
    Fault.ABORT: (0.02, 0.3),
    Fault.COMMITTED_UNHEARD: (0.02, 0.3),
    Fault.COMMIT_LOST: (0.02, 0.3),
    Fault.COMMIT_LATE: (0.02, 0.3),
    Fault.UNANSWERED: (0.005, 0.1),
    Fault.LATE_ANSWER: (0.05, 0.9),
    Fault.SHORT_POLL: (0.05, 0.9),
    Fault.EMPTY_POLL: (0.05, 0.5),
    Fault.LAG: (0.05, 0.5),
    Fault.LATE_END: (0.1, 0.9),
    Fault.LATE_RECORDS: (0.05, 0.6),
    Fault.OPEN_INPUT: (0.02, 0.2),
    Fault.ABORTED_INPUT: (0.02, 0.2),
    Fault.RESUMED_TWICE: (0.5, 0.5),
    Fault.ABORT_AHEAD: (0.2, 0.8),  # not costly: other faults would use the budget up before rounds overlap
}


def draw_swarm(draw: Random) -> Swarm:
    """Draw the faults of a seed: one seed in sixteen has none at all, most have about half of the kinds."""
    share = draw.choice((0.0, *(0.25,) * 5, *(0.5,) * 6, *(0.8,) * 4))
    rates = {}
    for fault in Fault:
        low, high = _RANGES[fault]
        rate = low * (high / low) ** draw.random()
        if draw.random() < share:
            rates[fault] = rate
    if Fault.COMMIT_MARKERS in rates:
        rates.pop(Fault.LOSS, None)  # without their inputs, unreadable outputs cannot be computed again
        rates.pop(Fault.RESET, None)  # operators reset streams of a task that was stopped cleanly
        rates.pop(Fault.COMMANDS, None)
        rates.pop(Fault.QUIET, None)  # nor can those whose inputs retention deletes
        rates.pop(Fault.SLOW, None)
    return Swarm(
        rates=rates,
        budget=draw.choice((1, 2, 3, 4, 5, 6, 8)),
        focus=draw.choice(CALLS) if draw.random() < 0.6 else "",
        longest_stall_s=draw.choice((1.0, 5.0, 15.0, 40.0, 90.0)),
    )


class Faults:
    """Draws the faults of one world, and counts them.

    Attributes:
        hits: How often each kind hit.
        events: How often each consequence occurred.
        is_calm: Whether no more faults occur, so that the world can end.
    """

    def __init__(self, swarm: Swarm, draw: Random) -> None:
        self.hits: Counter[Fault] = Counter()
        self.events: Counter[Event] = Counter()
        self.is_calm = False
        self._swarm = swarm
        self._draw = draw
        self._left = swarm.budget
        self._anywhere = [(fault, swarm.rates[fault]) for fault in ANYWHERE if fault in swarm.rates]
        self._any_rate = sum(rate for _, rate in self._anywhere)

    @property
    def draw(self) -> Random:
        """The random numbers for details of a fault."""
        return self._draw

    def hit(self, fault: Fault) -> bool:
        """Say whether this fault occurs now, and count it."""
        rate = self._swarm.rates.get(fault, 0.0)
        if not rate or self.is_calm or self._draw.random() >= rate:
            return False
        return self._count(fault)

    def anywhere(self, call: str) -> Fault | None:
        """Return the fault that occurs at this port call; None without a fault."""
        if self.is_calm or not self._left or not self._anywhere:
            return None
        factor = FOCUS_FACTOR if call == self._swarm.focus else 1.0
        number = self._draw.random() / factor
        if number >= self._any_rate:
            return None
        for fault, rate in self._anywhere:
            number -= rate
            if number < 0:
                return fault if self._count(fault) else None
        return None

    def stall_s(self) -> float:
        """Draw the duration of a stall: short ones are frequent."""
        return self._swarm.longest_stall_s * self._draw.random() ** 2

    def _count(self, fault: Fault) -> bool:
        if fault in COSTLY:
            if not self._left:
                return False
            self._left -= 1
        self.hits[fault] += 1
        return True
