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

from stream_app.jit.compiler import compiled
from stream_app.learners.method import CLASS_SIZES, GENERATOR, Method
from stream_app.learners.method_state import OOB, MethodStateView, grow_sizes, new_method_state
from stream_app.learners.poisson import draw, new_generator
from stream_app.learners.queues import gather_one
from stream_app.learners.scaler import ScalerView

MAX_RATE = 1000.0
"""The most steps on one label that a network is expected to take."""


@compiled
def oversampling_rate(state: MethodStateView, label: int) -> float:
    """Return lambda."""
    own, other = state.sizes[label], state.sizes[1 - label]
    if own < other and own != 0.0:
        rate: float = min(other / own, MAX_RATE)
        return rate
    return 1.0


@compiled
def admit_drawn(state: MethodStateView, scaler: ScalerView, slot: int, label: int, rate: float) -> int:
    """Let each network take as many steps on the example as it draws; return the number of examples."""
    draw(state.generator, state.words, state.table, rate, state.steps, state.networks)
    return gather_one(state, scaler, slot, label)


@compiled
def admit_oob(state: MethodStateView, scaler: ScalerView, slot: int, label: int) -> int:
    """Take a labelled example in: class sizes, lambda, K of each network; return the number of examples to learn."""
    grow_sizes(state, label)
    return admit_drawn(state, scaler, slot, label, oversampling_rate(state, label))


def bagging(kind: int, networks: int, theta: float, features: int, seed: bytes) -> Method:
    """Make a method that draws.

    Args:
        kind: `OOB` or `UOB`.
        networks: Networks of the ensemble, at least 1.
        theta: Decay of the class sizes, between 0 and 1.
        features: Numbers in an example.
        seed: The learner's 32-byte seed.
    """
    state = new_method_state(kind, features, networks=networks, theta=theta, generator=new_generator(seed))
    return Method(state, CLASS_SIZES, GENERATOR)


def oob(networks: int, theta: float, features: int, seed: bytes) -> Method:
    """Make the method; with one network it is the paper's OOB_single."""
    return bagging(OOB, networks, theta, features, seed)
