"""UOB: undersampling-based online bagging (Wang, Minku, Yao 2015).

As OOB, but lambda is 1 for the smaller class and, for an example of the larger one, the ratio of the sizes, smaller by
larger: most networks leave most examples of the majority out.

The authors of AREBA name the method and do not run it, so it follows its own paper; what that leaves open is decided
as for OOB (see `oob`). In particular lambda is 1 while one class has never been seen. The letter would make it 0 and
learn nothing before the first example of the other class.
"""

from stream_app.jit.compiler import compiled
from stream_app.learners.method import Method
from stream_app.learners.method_state import UOB, MethodStateView, grow_sizes
from stream_app.learners.methods.oob import admit_drawn, bagging
from stream_app.learners.scaler import ScalerView


@compiled
def undersampling_rate(state: MethodStateView, label: int) -> float:
    """Return lambda."""
    own, other = state.sizes[label], state.sizes[1 - label]
    if own > other and other != 0.0:
        rate: float = other / own
        return rate
    return 1.0


@compiled
def admit_uob(state: MethodStateView, scaler: ScalerView, slot: int, label: int) -> int:
    """Take a labelled example in: class sizes, lambda, K of each network; return the number of examples to learn."""
    grow_sizes(state, label)
    return admit_drawn(state, scaler, slot, label, undersampling_rate(state, label))


def uob(networks: int, theta: float, features: int, seed: bytes) -> Method:
    """Make the method; see `oob.bagging`."""
    return bagging(UOB, networks, theta, features, seed)
