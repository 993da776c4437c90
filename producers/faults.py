"""Faults that a replay injects. Each is a share of the records that it can affect, chosen by the seed."""

from dataclasses import dataclass, fields

from stream_app.errors import ConfigurationError

LATEST_EVENTS = 10
"""The most events from a record to its repetition; the least is 1."""

FURTHEST_EVENTS = 5
"""The most events by which a record out of order is late; the least is 1."""

GARBAGE_MAX_BYTES = 64


@dataclass(frozen=True, slots=True)
class Faults:
    """Shares of faults, each at least 0 and below 1.

    Attributes:
        duplicates: Examples and labels that are sent again a little later, with the same bytes.
        out_of_order: Examples and labels that are sent after later ones; the timestamp stays.
        dropped: Examples that are not sent. Their labels are sent and never meet an example.
        conflicting_labels: Labels that are followed by a label of the other class.
        garbage: Examples at whose time random bytes are sent under the stream's key, on either topic.
    """

    duplicates: float = 0.0
    out_of_order: float = 0.0
    dropped: float = 0.0
    conflicting_labels: float = 0.0
    garbage: float = 0.0

    def __post_init__(self) -> None:
        wrong = [field.name for field in fields(self) if not 0.0 <= getattr(self, field.name) < 1.0]
        if wrong:
            raise ConfigurationError(
                f"{name.replace('_', '-')}: {getattr(self, name):g} must be from 0 to below 1" for name in wrong
            )


NO_FAULTS = Faults()
