"""What a metric is: its name, kind, unit, meaning and labels, as Prometheus knows them."""

from enum import StrEnum
from typing import NamedTuple


class MetricKind(StrEnum):
    """The kind of a metric, as Prometheus defines it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Unit(StrEnum):
    """What a figure counts. A name ends with seconds, bytes or ratio if that is its unit (before `_total`)."""

    SECONDS = "seconds"
    TIMESTAMP = "seconds since 1970"
    BYTES = "bytes"
    RATIO = "ratio"
    RECORDS = "records"
    COUNT = "number"
    FLAG = "0 or 1"


class MetricDeclaration(NamedTuple):
    """A metric: its name, kind, unit, meaning and labels."""

    name: str
    kind: MetricKind
    unit: Unit
    text: str
    labels: tuple[str, ...] = ("task",)
