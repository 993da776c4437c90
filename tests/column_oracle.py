"""What the columns of a stream make of its examples: the rules of docs/columns.md in plain Python, one after the other.

It shares no code with `stream_app.pipeline.preparation`.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from stream_app.config import ColumnSettings, StreamSettings
from stream_app.records import Value
from tests.relay_oracle import Standardisation

HALVED_AFTER = 100_000
MEMORY = 1000


def fnv1a(text: bytes) -> int:
    """Return the 64-bit FNV-1a hash."""
    value = 0xCBF29CE484222325
    for byte in text:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


class Category:
    """A counted category: how often it came, by how much that may be too large, and its place."""

    def __init__(self, count: int = 0) -> None:
        self.count = self.excess = count
        self.place: int | None = None


class Frequent:
    """The frequent categories of a column with `most`; `rows` keeps them in the order of their rows."""

    def __init__(self, places: int) -> None:
        self.places, self.seen, self.placed = places, 0, 0
        self.rows: list[bytes] = []
        self.known: dict[bytes, Category] = {}

    def place_of(self, text: bytes) -> int:
        """Count a category and return its place, or that of the others."""
        if len(text) > 64:
            return self.places
        if text not in self.known:
            self._admit(text)
        own = self.known[text]
        own.count += 1
        if own.place is None and self.placed < self.places:
            own.place, self.placed = self.placed, self.placed + 1
        elif own.place is None:
            least = min(
                (one for one in self.known.values() if one.place is not None),
                key=lambda one: (one.count, -(one.place or 0)),
            )
            if own.count - own.excess > least.count:
                own.place, least.place = least.place, None
        place = own.place
        self.seen += 1
        if self.seen == HALVED_AFTER:
            self.seen = 0
            for one in self.known.values():
                one.count, one.excess = one.count // 2, one.excess // 2
        return self.places if place is None else place

    def with_places(self, places: int) -> "Frequent":
        """Continue with more places, which the most frequent categories without a place take."""
        self.places = places
        for row in sorted(self.rows, key=lambda row: -self.known[row].count):
            if self.known[row].place is None and self.placed < places:
                self.known[row].place, self.placed = self.placed, self.placed + 1
        return self

    def _admit(self, text: bytes) -> None:
        if len(self.rows) < 2 * self.places:
            self.rows.append(text)
            self.known[text] = Category()
            return
        free = [number for number, row in enumerate(self.rows) if self.known[row].place is None]
        number = min(free, key=lambda each: (self.known[self.rows[each]].count, each))
        before = self.known.pop(self.rows[number])
        self.rows[number], self.known[text] = text, Category(before.count)


class ColumnOracle:
    """The columns of one stream."""

    def __init__(self, settings: StreamSettings) -> None:
        self.settings = settings
        most = {name: one.category.most for name, one in settings.columns.items() if one.category is not None}
        self.frequent = {name: Frequent(places) for name, places in most.items() if places is not None}
        self.moments = {name: Standardisation(1) for name in settings.columns}
        self.means = {name: np.zeros(one.value_width) for name, one in settings.columns.items()}
        self.counts = dict.fromkeys(settings.columns, 0)

    def grow(self, settings: StreamSettings) -> None:
        """Continue with more columns, more places for categories, or features for gaps."""
        fresh = ColumnOracle(settings)
        for name, means in self.means.items():
            fresh.means[name][: len(means)] = means
            if len(means) < len(fresh.means[name]):  # a category has more places; the last is that of the others
                fresh.means[name][[len(means) - 1, -1]] = 0, means[-1]
        for name, one in self.frequent.items():
            fresh.frequent[name] = one.with_places(fresh.frequent[name].places)
        fresh.moments |= self.moments
        fresh.counts |= self.counts
        self.__dict__ = fresh.__dict__

    def prepare(self, values: Mapping[str, Value]) -> Sequence[float]:
        """Return the features of an example that fits its columns."""
        features: list[float] = []
        for name, column in self.settings.columns.items():
            features += self._features(name, column, values.get(name))
        return np.array(features, np.float32).tolist()  # type: ignore[no-any-return]  # a list of floats

    def _features(self, name: str, column: ColumnSettings, value: Value) -> list[float]:
        if isinstance(value, float) and math.isnan(value):
            value = None
        if isinstance(value, bool):
            value = int(value)
        is_number = column.category is None and column.cyclic is None
        if value is None or value in self.settings.missing_values:
            mean = self.moments[name].means if is_number else self.means[name].tolist()
            return [*mean, 1.0]
        features = self._present(name, column, value)
        if column.missing is None:
            return features
        if is_number:
            self.moments[name].add(np.array(features, np.float32).tolist())
        else:
            self.counts[name] = min(self.counts[name] + 1, MEMORY)
            self.means[name] += (1 / self.counts[name]) * (np.array(features, np.float32) - self.means[name])
        return [*features, 0.0]

    def _present(self, name: str, column: ColumnSettings, value: float | str) -> list[float]:
        if column.cyclic is not None:
            turns = float(value) / column.cyclic
            angle = 2 * math.pi * (turns - math.floor(turns))
            return [math.sin(angle), math.cos(angle)]
        if column.category is None:
            return [float(value)]
        text = value if isinstance(value, str) else str(int(value))
        features = [0.0] * column.value_width
        if name in self.frequent:
            features[self.frequent[name].place_of(text.encode())] = 1.0
        else:
            hashed = fnv1a(text.encode())
            features[((hashed >> 32) ^ (hashed & 0xFFFFFFFF)) % len(features)] = 1.0
        return features
