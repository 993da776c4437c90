"""Faults that a replay makes on purpose, each a share of the records that it could touch; seeded."""

from dataclasses import dataclass, fields

from stream_app.errors import ConfigurationError

LATEST_EVENTS = 10
"""A second record comes 1 to so many events behind the first."""

FURTHEST_EVENTS = 5
"""A record out of order is sent 1 to so many events late."""

GARBAGE_MAX_BYTES = 64


@dataclass(frozen=True, slots=True)
class Faults:
    """Shares, each from 0 to below 1.

    Attributes:
        duplicates: Of examples, and of labels: sent again, the same bytes, a little later.
        out_of_order: Of examples and labels: sent behind later ones; the timestamp stays.
        dropped: Of examples: not sent. Their labels are, and become orphans.
        conflicting_labels: Of labels: followed by one with the other class.
        garbage: Of examples: random bytes under the stream's key, on either topic, at that time.
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
                f"{name.replace('_', '-')}: {getattr(self, name):g} is no share from 0 to below 1" for name in wrong
            )


NO_FAULTS = Faults()
