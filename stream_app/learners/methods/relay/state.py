"""RELAY's own state, and the names of its elements."""

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats, Longs, Words
from stream_app.jit.tables import ArrayMark, new_table, view_of
from stream_app.learners.moments import new_moments
from stream_app.learners.poisson import WORDS, new_generator

NETWORKS = 7
_NUMBERS: Any = [np.int64(number) for number in range(NETWORKS)]
NETWORK, PREDICTOR, AVERAGE, CHALLENGER, CHALLENGER_AVERAGE, SHORT, FIRST = _NUMBERS
"""The networks: the learning one, what predicts, the average of the learning one's weights, the same two of the
challenger, the short memory, and the first weights, which never change. See `dense_networks.ZERO`."""

WITH_CHALLENGER, WITH_JITTER, WITH_AVERAGES, WITH_GATES, WITH_SHORT = 1, 2, 4, 8, 16
ALL_MECHANISMS = WITH_CHALLENGER | WITH_JITTER | WITH_AVERAGES | WITH_GATES | WITH_SHORT
"""The mechanisms that can be switched off: bits of `RelayState.mechanisms`."""

SEEN, TRIED, RECENT, ON, PAUSE, WAITING, LABELS, STEPS_LEFT, PREDICTED = 0, 2, 4, 6, 7, 8, 9, 10, 11
COMPARED, IS_SHORT, TALLIES = 12, 14, 15
"""Tallies: of each class the labels since the network's birth, the labels since the challenger's, and the kept examples
that the challenger draws from; whether there is a challenger; labels since an alarm; predictions since a label; labels;
the steps that are left to take, 0 between two operations; predictions; of each class the labels by which the short
memory was judged; and whether it predicts."""

FAST_ERROR, SLOW_ERROR, LOSS, CHALLENGER_LOSS, GAIN, SQUARED_GAIN, ERROR_COUNT = 0, 2, 4, 6, 8, 10, 12
"""Errors: of each class the two averages of the network's error, the losses of network and challenger,
and the mean gain of the short memory and of its square."""


class RelayState(NamedTuple):
    """RELAY's own state.

    Attributes:
        width: Features of an example.
        mechanisms: Which mechanisms are on: a sum of `WITH_CHALLENGER` and the like.
        moments: float64 `[4 * width]`, see `learners.moments`.
        tallies: int64 `[TALLIES]`.
        errors: float64 `[ERROR_COUNT]`.
        slopes: float64 `[width]`, the trends of the features.
        gates: float32 `[width]`, what standardised features are multiplied by; empty without gates.
        generator: uint64, see `poisson`.
        words: uint64: random words.
        factors: float64 `[width]`: the inverse of each feature's deviation.
        sums: float64: the sums from which the trends and gates are computed.
    """

    width: int
    mechanisms: int
    moments: NDArray[np.float64]
    tallies: Longs
    errors: NDArray[np.float64]
    slopes: NDArray[np.float64]
    gates: Floats
    generator: Words
    words: Annotated[Words, ArrayMark.SHARED]
    factors: Annotated[NDArray[np.float64], ArrayMark.SHARED]
    sums: Annotated[NDArray[np.float64], ArrayMark.SHARED]


state_of = view_of(RelayState)
"""`state_of(learner.own)`: RELAY's own state, for compiled code."""


def new_state(features: int, seed: bytes, mechanisms: int) -> RelayState:
    """Return the own state of a new RELAY."""
    return new_table(
        RelayState,
        width=features,
        mechanisms=mechanisms,
        moments=new_moments(features),
        tallies=TALLIES,
        errors=ERROR_COUNT,
        slopes=features,
        gates=np.ones(features if mechanisms & WITH_GATES else 0),
        generator=new_generator(seed),
        words=WORDS,
        factors=features,
        sums=7 * features,
    )
