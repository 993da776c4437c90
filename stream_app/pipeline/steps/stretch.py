"""A stretch of a batch, before and after the steps join and learn."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Integers, Longs
from stream_app.join.input import Segments
from stream_app.join.output import JoinOutput
from stream_app.pipeline.steps.join_and_learn import LearnerAnswers


class Stretch(NamedTuple):
    """The records of a batch up to the next control record of each stream.

    Attributes:
        streams: int32 `[s]`, the streams that take part, ascending.
        segments: Their records.
    """

    streams: Integers
    segments: Segments


class Joined(NamedTuple):
    """A stretch after the steps join and learn.

    Attributes:
        streams: int32 `[s]`, the streams of the segments.
        learners: int64 `[s, n, LEARNER_COLUMNS]`, their rows of the table of learners.
        out: The results of the join.
        answers: The answers of the learners.
        drifts: float64 `[reports, FIGURES]`, see `pipeline.drift`.
    """

    streams: Integers
    learners: Longs
    out: JoinOutput
    answers: LearnerAnswers
    drifts: NDArray[np.float64]
