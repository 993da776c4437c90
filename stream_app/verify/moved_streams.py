"""What the check of one partition hands to that of another: streams that `areba repartition` has moved.

The new number of partitions is a multiple of the old one, so a stream moves to a partition with a higher number, which
is checked later. What a stream was at its move is not read from progress, but what the checks themselves have found.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_app.records import Prediction
from stream_app.snapshot.moved_stream import MovedStream
from stream_app.verify.output_checks import Output
from stream_app.verify.reference_state import ReferenceStream


class Departed(NamedTuple):
    """A stream that has left its partition, and the champion's predictions of its pending examples, by id."""

    stream: ReferenceStream
    predictions: Mapping[str, Output[Prediction]]


@dataclass
class MovedStreams:
    """The streams that have left the partitions that were checked so far.

    Attributes:
        departed: What the reference join knows of them; without those whose partition could not be checked.
        states: The states that a fresh run has computed.
        names: All of them.
    """

    departed: dict[str, Departed] = field(default_factory=dict)
    states: dict[str, MovedStream] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
