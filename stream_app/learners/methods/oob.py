"""OOB: oversampling-based online bagging (Wang, Minku, Yao 2015), with an ensemble of networks or with one.

On a label the time-decayed class sizes grow; each network draws K from a Poisson distribution of rate lambda and takes
K steps on the example alone. Lambda is 1, but for an example of the smaller class the ratio of the sizes, larger by
smaller. A network that drew 0 is left as it is. The class is the majority's vote, P(class 1) the networks' mean.

Where the texts leave a choice, the authors' code of AREBA decides:

- K steps are K epochs on a batch of one example: K Adam steps, not one step with K times the loss.
- While one class has never been seen, and when the sizes are equal, lambda is 1.
- A tied vote (10 of 20) goes to the class that the first network votes for.
- A network votes for class 1 where its P(class 1) is over 0.5.

The ensemble's networks start from different weights. Lambda is at most `MAX_RATE`. The largest that a theta can bring
is theta / (1 - theta), 99 for the paper's 0.99 and 999 for 0.999, so only larger ones meet the bound: a label must not
take seconds.
"""

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Words
from stream_app.config import LearnerSettings
from stream_app.jit.compiler import compiled
from stream_app.jit.tables import ArrayMark, new_table, view_of
from stream_app.learners.method import CLASS_SIZES, Functions, LearningMethod, RunningMethod, array_part
from stream_app.learners.method_state import LearnerView, MethodState, grow_sizes, new_tables
from stream_app.learners.poisson import TABLE_SIZE, WORDS, draw, new_generator
from stream_app.learners.queues import gather_one

MAX_RATE = 1000.0
"""The most steps on one label that a network is expected to take."""


class _Draws(NamedTuple):
    """The own state of OOB and UOB: see `poisson`."""

    generator: Words
    words: Annotated[Words, ArrayMark.SHARED]
    table: Annotated[NDArray[np.float64], ArrayMark.SHARED]


_own = view_of(_Draws)


@compiled
def oversampling_rate(state: MethodState, label: int) -> float:
    """Return lambda."""
    own, other = state.sizes[label], state.sizes[1 - label]
    if own < other and own != 0.0:
        rate: float = min(other / own, MAX_RATE)
        return rate
    return 1.0


@compiled
def admit_drawn(learner: LearnerView, slot: int, label: int, rate: float) -> int:
    """Let each network take as many steps on the example as it draws; return the number of examples."""
    own = _own(learner.own)
    draw(own.generator, own.words, own.table, rate, learner.state.steps, learner.state.networks)
    return gather_one(learner, slot, label)


@compiled
def _admit(learner: LearnerView, slot: int, label: int) -> int:
    """Take a labelled example in: class sizes, lambda, K of each network; return the number of examples to learn."""
    grow_sizes(learner.state, label)
    return admit_drawn(learner, slot, label, oversampling_rate(learner.state, label))


def bagging(settings: LearnerSettings, features: int, seed: bytes) -> RunningMethod:
    """Make OOB or UOB."""
    own = new_table(_Draws, generator=new_generator(seed), words=WORDS, table=np.full(TABLE_SIZE, -1.0))
    tables = new_tables(features, own, theta=settings.theta, networks=settings.ensemble_size)
    return RunningMethod(tables, (CLASS_SIZES, array_part("generator", "own.generator")))


def _single(settings: LearnerSettings, features: int, seed: bytes) -> RunningMethod:
    return bagging(settings.model_copy(update={"ensemble_size": 1}), features, seed)


OOB = LearningMethod("oob", Functions(_admit), bagging)

OOB_SINGLE = LearningMethod("oob_single", Functions(_admit), _single)
"""OOB with one network."""
