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
from stream_app.learners.poisson import draw, new_generator
from stream_app.learners.queues import CLASS_SIZES, GENERATOR, OOB, Held, Method, alone, grow_sizes, memory_of
from stream_app.learners.scaler import Desk

MAX_RATE = 1000.0
"""Steps on one label that a network is expected to take, at most."""


@compiled
def oversampling_rate(held: Held, label: int) -> float:
    """Lambda."""
    own, other = held.sizes[label], held.sizes[1 - label]
    if own < other and own != 0.0:
        rate: float = min(other / own, MAX_RATE)
        return rate
    return 1.0


@compiled
def admit_drawn(held: Held, desk: Desk, slot: int, label: int, rate: float) -> int:
    """The example alone, as often for each network as it draws."""
    draw(held.generator, held.words, held.table, rate, held.steps, held.networks)
    return alone(held, desk, slot, label)


@compiled
def admit_oob(held: Held, desk: Desk, slot: int, label: int) -> int:
    """Class sizes, lambda, K of each network; how many examples there are to learn from."""
    grow_sizes(held, label)
    return admit_drawn(held, desk, slot, label, oversampling_rate(held, label))


def bagging(kind: int, networks: int, theta: float, features: int, seed: bytes) -> Method:
    """A method that draws.

    Args:
        kind: Which one.
        networks: In the ensemble, at least 1.
        theta: Decay of the class sizes, between 0 and 1.
        features: Numbers in an example.
        seed: 32 bytes, the learner's.
    """
    memory = memory_of(kind, features, networks=networks, theta=theta, generator=new_generator(seed))
    return Method(memory, CLASS_SIZES, GENERATOR)


def oob(networks: int, theta: float, features: int, seed: bytes) -> Method:
    """The method; of one network it is the paper's OOB_single."""
    return bagging(OOB, networks, theta, features, seed)
