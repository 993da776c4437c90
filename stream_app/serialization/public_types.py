"""The types of the records in the input and output topics."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from stream_app.records import Example, Label, Mark, Metric, Outcome, Prediction, Side

PublicRecord: TypeAlias = Example | Label | Mark | Prediction | Outcome | Metric

PUBLIC_TYPES: Sequence[type[PublicRecord]] = (Example, Label, Mark, Prediction, Outcome, Metric)

INPUT_TYPES: Mapping[Side, Sequence[type[PublicRecord]]] = MappingProxyType(
    {Side.EXAMPLES: (Example, Mark), Side.LABELS: (Label, Mark)}
)
"""The types of the records in each input, first that of its data."""
