"""The schedule of faults that a seed decides: waves of faults. It needs no clock, process or Kafka.

A wave hits several workers together, and sometimes a broker; the next wave comes when every task has made progress.
Simultaneous kills are cheap: each rebalance waits for the sessions of all workers that died before it, one or three
alike.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The kinds of faults of a worker."""

    KILL = "worker SIGKILL"
    FREEZE = "worker SIGSTOP, SIGCONT"
    LEAVE = "worker leaves and joins again"


class Moment(StrEnum):
    """The event in the worker's log that a fault waits for."""

    START = "start"
    ASSIGNED = "assigned"
    LIVE = "live"
    SAVING = "saving"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a worker.

    Attributes:
        kind: The kind of fault.
        moment: The event that the fault waits for.
        delay_s: The delay after this event.
        lasts_s: How long the worker is frozen or absent.
    """

    kind: Kind
    moment: Moment
    delay_s: float
    lasts_s: float = 0.0


@dataclass(frozen=True, slots=True)
class BrokerKill:
    """A broker is killed, and started again."""

    node: int
    delay_s: float
    lasts_s: float


@dataclass(frozen=True, slots=True)
class Wave:
    """Simultaneous faults: for each worker, one fault after the other; then every task makes this many commits."""

    faults: Mapping[str, Sequence[Fault]]
    broker: BrokerKill | None
    commits: int

    @property
    def kills(self) -> int:
        """Number of SIGKILLs in the wave."""
        workers = sum(fault.kind is Kind.KILL for chain in self.faults.values() for fault in chain)
        return workers + (self.broker is not None)


BROKERS = 3
"""One of the brokers may be dead: a majority remains, and the two others have everything that was acknowledged."""

BROKER_SHARE = 0.2
"""Share of the waves that kill a broker."""

DELAYS_S: Mapping[Moment, float] = {Moment.START: 4.0, Moment.ASSIGNED: 0.25, Moment.LIVE: 0.4, Moment.SAVING: 0.05}
"""Longest delays: about as long as a worker stays in the state."""


def waves(seed: str, names: Sequence[str], kills: int) -> Iterator[Wave]:
    """Yield waves with this number of kills in total.

    Args:
        seed: The same seed gives the same waves.
        names: The workers.
        kills: Number of SIGKILLs, of workers and brokers together.
    """
    draw = random.Random(seed)
    left = kills
    while left > 0:
        wave = _wave(draw, names, left)
        left -= wave.kills
        yield wave


def _wave(draw: random.Random, names: Sequence[str], kills: int) -> Wave:
    """Return a wave with at least one kill, and no more than are left."""
    broker = None
    if draw.random() < BROKER_SHARE:
        broker = BrokerKill(draw.randint(1, BROKERS), draw.uniform(0.0, 2.0), draw.uniform(0.5, 6.0))
        kills -= 1
    faults: dict[str, Sequence[Fault]] = {}
    for name in draw.sample(names, len(names)):
        chain, kills = _chain(draw, kills)
        if chain:
            faults[name] = chain
    if broker is None and not any(fault.kind is Kind.KILL for chain in faults.values() for fault in chain):
        faults[names[0]] = (_fault(draw, Kind.KILL, Moment.LIVE),)
    return Wave(faults, broker, draw.randint(1, 8))


def _chain(draw: random.Random, kills: int) -> tuple[Sequence[Fault], int]:
    """Return the faults of one worker in a wave, and how many kills are left then."""
    chance = draw.random()
    if chance < 0.1:
        return (), kills
    if chance < 0.2:  # half of these last longer than a session, some longer than a transaction may
        lasts_s = draw.choice((draw.uniform(0.1, 3.0), draw.uniform(7.0, 12.0)))
        return (_fault(draw, Kind.FREEZE, draw.choice((Moment.LIVE, Moment.ASSIGNED)), lasts_s),), kills
    if chance < 0.3:
        return (_fault(draw, Kind.LEAVE, Moment.LIVE, draw.uniform(0.0, 8.0)),), kills
    chain = []
    if kills > 0:
        chain.append(_fault(draw, Kind.KILL, draw.choice((Moment.LIVE, Moment.LIVE, Moment.SAVING))))
    if kills > 1 and draw.random() < 0.5:  # a worker that dies again while it restarts
        chain.append(_fault(draw, Kind.KILL, draw.choice((Moment.START, Moment.ASSIGNED, Moment.ASSIGNED))))
    return chain, kills - len(chain)


def _fault(draw: random.Random, kind: Kind, moment: Moment, lasts_s: float = 0.0) -> Fault:
    return Fault(kind, moment, draw.uniform(0.0, DELAYS_S[moment]), lasts_s)
