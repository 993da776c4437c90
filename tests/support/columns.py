"""A stream with columns of every kind, and examples of it."""

from collections.abc import Mapping
from random import Random
from typing import Any

from stream_app.config import ColumnSettings, StreamSettings
from stream_app.config.column_settings import width_of
from stream_app.records import Value
from tests.support.tasks import LEARNERS

COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "amount": {},
    "age": {"missing": "mean"},
    "country": {"category": {"most": 3}, "missing": "mean"},
    "city": {"category": {"most": 2}},
    "merchant": {"category": {"hashed": 5}},
    "branch": {"category": {"hashed": 2}, "missing": "mean"},
    "weekday": {"cyclic": 7},
    "hour": {"cyclic": 24, "missing": "mean"},
}

MARKS = (-9999.0, "", "n/a")

CATEGORIES = ("DE", "FR", "IT", "São Tomé", "x" * 64, "y" * 65, "0", "7")


def stream_with_columns(columns: Mapping[str, Any] = COLUMNS, **chosen: Any) -> StreamSettings:  # noqa: ANN401
    """Return the settings of a stream with columns."""
    own = {name: ColumnSettings(**one) for name, one in columns.items()}
    return StreamSettings(**{
        "features": width_of(own),
        "columns": own,
        "missing_values": MARKS,
        "champion": "one",
        "learners": LEARNERS,
        **chosen,
    })  # fmt: skip


def draw_values(draw: Random, drifted: bool = False) -> dict[str, Value]:
    """Return an example that fits `COLUMNS`; after a drift, other categories are frequent."""
    missing: list[Value] = [None, -9999, "", "n/a", float("nan")]

    def one_of(*given: Value) -> Value:
        return draw.choice(given)

    def perhaps(value: Value) -> Value:
        return draw.choice(missing) if draw.random() < 0.2 else value

    categories = CATEGORIES[::-1] if drifted else CATEGORIES
    values: dict[str, Value] = {
        "amount": one_of(draw.gauss(50, 20), 3, True, -0.0, 1e30),
        "age": perhaps(draw.choice([draw.gauss(40, 10), 1e9])),
        "country": perhaps(categories[min(int(draw.expovariate(0.7)), 7)]),
        "city": one_of(f"city-{draw.randrange(40)}", draw.randrange(5), 2.0, False),
        "merchant": one_of(draw.randrange(-(2**62), 2**62), -3, 10.0, "m", True),
        "branch": perhaps(draw.randrange(3)),
        "weekday": one_of(draw.randrange(7), draw.uniform(-20, 20)),
        "hour": perhaps(draw.uniform(0, 24)),
    }
    for name in ("age", "country", "branch", "hour"):
        if values[name] is None and draw.random() < 0.5:
            del values[name]
    names = list(values)
    draw.shuffle(names)
    return {name: values[name] for name in names}
