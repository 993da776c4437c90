"""What is done to whom, from a seed: waves of faults. No clock, no process, no Kafka here.

A wave strikes several workers at once, and a broker now and then; the next comes when every task has gone on. Striking
at once is what makes many kills cheap: each rebalance waits for the sessions of all that died before it, whether they
are one or three.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What is done to a worker."""

    KILL = "worker SIGKILL"
    FREEZE = "worker SIGSTOP, SIGCONT"
    LEAVE = "worker leaves and joins again"


class Moment(StrEnum):
    """What is waited for first, in the worker's log."""

    START = "start"
    ASSIGNED = "assigned"
    LIVE = "live"
    SAVING = "saving"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is done to a worker.

    Attributes:
        kind: What.
        moment: What is waited for.
        delay_s: From then on.
        lasts_s: How long it is frozen or away.
    """

    kind: Kind
    moment: Moment
    delay_s: float
    lasts_s: float = 0.0


@dataclass(frozen=True, slots=True)
class BrokerKill:
    """A broker that is killed, and started again."""

    node: int
    delay_s: float
    lasts_s: float


@dataclass(frozen=True, slots=True)
class Wave:
    """What happens at once: to each worker one fault after the other; then every task makes so many commits."""

    faults: Mapping[str, Sequence[Fault]]
    broker: BrokerKill | None
    commits: int

    @property
    def kills(self) -> int:
        """How many SIGKILLs it has."""
        workers = sum(fault.kind is Kind.KILL for chain in self.faults.values() for fault in chain)
        return workers + (self.broker is not None)


BROKERS = 3
"""One of them may be dead: a majority stays, and all that is acknowledged is on the two others."""

BROKER_SHARE = 0.2
"""Of the waves."""

DELAYS_S: Mapping[Moment, float] = {Moment.START: 4.0, Moment.ASSIGNED: 0.25, Moment.LIVE: 0.4, Moment.SAVING: 0.05}
"""The longest: the time that a worker is in such a state, about."""


def waves(seed: str, names: Sequence[str], kills: int) -> Iterator[Wave]:
    """Waves with so many kills in all.

    Args:
        seed: The same seed gives the same waves.
        names: The workers.
        kills: SIGKILLs, of workers and brokers together.
    """
    draw = random.Random(seed)
    left = kills
    while left > 0:
        wave = _wave(draw, names, left)
        left -= wave.kills
        yield wave


def _wave(draw: random.Random, names: Sequence[str], kills: int) -> Wave:
    """One wave with at least one kill, and no more than are left."""
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
    """What happens to one worker in a wave, and how many kills are left then."""
    chance = draw.random()
    if chance < 0.1:
        return (), kills
    if chance < 0.2:  # half of these outlast a session, some a transaction
        lasts_s = draw.choice((draw.uniform(0.1, 3.0), draw.uniform(7.0, 12.0)))
        return (_fault(draw, Kind.FREEZE, draw.choice((Moment.LIVE, Moment.ASSIGNED)), lasts_s),), kills
    if chance < 0.3:
        return (_fault(draw, Kind.LEAVE, Moment.LIVE, draw.uniform(0.0, 8.0)),), kills
    chain = []
    if kills > 0:
        chain.append(_fault(draw, Kind.KILL, draw.choice((Moment.LIVE, Moment.LIVE, Moment.SAVING))))
    if kills > 1 and draw.random() < 0.5:  # a worker that dies again while it comes back
        chain.append(_fault(draw, Kind.KILL, draw.choice((Moment.START, Moment.ASSIGNED, Moment.ASSIGNED))))
    return chain, kills - len(chain)


def _fault(draw: random.Random, kind: Kind, moment: Moment, lasts_s: float = 0.0) -> Fault:
    return Fault(kind, moment, draw.uniform(0.0, DELAYS_S[moment]), lasts_s)
