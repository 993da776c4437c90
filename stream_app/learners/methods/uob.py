"""UOB: undersampling-based online bagging (Wang, Minku, Yao 2015).

As OOB, but lambda is 1 for the smaller class and, for an example of the larger one, the ratio of the sizes, smaller by
larger: most networks leave most examples of the majority out.

The authors of AREBA name the method and do not run it, so it follows its own paper; what that leaves open is decided
as for OOB (see `oob`). In particular lambda is 1 while one class has never been seen. The letter would make it 0 and
learn nothing before the first example of the other class.
"""

from stream_app.jit.compiler import compiled
from stream_app.learners.method import Functions, LearningMethod
from stream_app.learners.method_state import LearnerView, MethodState, grow_sizes
from stream_app.learners.methods.oob import admit_drawn, bagging


@compiled
def undersampling_rate(state: MethodState, label: int) -> float:
    """Return lambda."""
    own, other = state.sizes[label], state.sizes[1 - label]
    if own > other and other != 0.0:
        rate: float = other / own
        return rate
    return 1.0


@compiled
def _admit(learner: LearnerView, slot: int, label: int) -> int:
    """Take a labelled example in: class sizes, lambda, K of each network; return the number of examples to learn."""
    grow_sizes(learner.state, label)
    return admit_drawn(learner, slot, label, undersampling_rate(learner.state, label))


UOB = LearningMethod("uob", Functions(_admit), bagging)
