"""The inputs of a seed: some dozens of records with everything that may happen to a record."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from stream_app.records import Example, Header, Label, Mark, MarkKind, Side, Value
from stream_app.serialization import codec
from stream_app.serialization.dead_letter import SENT_BACK, START
from stream_app.serialization.erased_ids import id_digest
from tests.simulation.schedule import START_MS
from tests.support.rows import Sent

STEP_MS = 10
"""Event time from one example of a stream to the next."""

HEAVY = bytes(20_000)
"""A header: some records with it fill the buffer of a partition, which is then paused."""

LARGE_BYTES = 3_000
"""More than the topic of dead letters accepts in a world where its limit is low."""

HOUR_MS, DAY_MS = 3_600_000, 86_400_000

OUTLIERS = (9999.0, -9999.0, 1e10, -1e10, 3.4e38, -3.4e38)
"""Marks for missing values, wrong units, and the largest float32."""

LATE_STREAM = "late"
"""The stream that only the second configuration has."""


COUNTRIES = ("DE", "DE", "FR", "IT")


class StreamOf(NamedTuple):
    """A stream: its partition, and how many features its examples have; 0: they have values by column."""

    name: str
    partition: int
    features: int


class Trouble(NamedTuple):
    """Probabilities of the faults of a record, and of its time."""

    repeated: float
    unlabelled: float
    garbage: float
    oversized: float
    marks: float
    disorder: float
    heavy: float
    odd_times: float
    outliers: float


def draw_trouble(draw: Random) -> Trouble:
    """Draw probabilities: some seeds are clean, some have mostly faults."""
    light = Trouble(*(draw.choice((0.0, 0.05, 0.15, 0.4)) for _ in Trouble._fields))
    return light._replace(
        heavy=draw.choice((0.0, 0.0, 0.0, 0.3)),
        odd_times=draw.choice((0.0, 0.0, 0.02, 0.1)),
        outliers=draw.choice((0.0, 0.0, 0.02, 0.1)),
    )


def draw_records(
    draw: Random, streams: Sequence[StreamOf], examples: int, learners: Sequence[str], trouble: Trouble
) -> list[Sent]:
    """Return all records of a seed in the order of sending, which is roughly the order of their times."""
    records: list[tuple[float, Sent]] = []
    for stream in streams:
        for number in range(examples):
            now_ms = START_MS + STEP_MS * number + 1
            for sent in _moment(draw, stream, number, now_ms, learners, trouble):
                lag_ms = STEP_MS * 4 * draw.random() if draw.random() < trouble.disorder else 0.0
                records.append((sent.time_ms + lag_ms, _odd_time(draw, sent, trouble)))
        if draw.random() < 0.5:
            end_ms = START_MS + STEP_MS * (examples + draw.randrange(0, 8))
            records += [(end_ms, mark) for mark in _pair(stream, end_ms, end_ms)]
    records.sort(key=lambda record: record[0])
    return [sent for _, sent in records]


def _moment(
    draw: Random, stream: StreamOf, number: int, now_ms: int, learners: Sequence[str], trouble: Trouble
) -> Iterator[Sent]:
    """Yield one example with its label, and what else happens at that time."""
    key, id_, truth = stream.name.encode(), f"{stream.name}-{number}", int(draw.random() < 0.3)
    features = [round(draw.gauss(truth, 1.0), 3) for _ in range(stream.features or 1)]
    if draw.random() < trouble.outliers:
        features[draw.randrange(len(features))] = draw.choice(OUTLIERS)
    extra = "" if stream.features else draw.choice(COUNTRIES)
    trace = draw.choice(_traces(number)) if draw.random() < 0.1 else ()
    if draw.random() < trouble.heavy:
        trace = (*trace, ("heavy", HEAVY))
    yield Sent(Side.EXAMPLES, stream.partition, now_ms, key, _example(stream, id_, features, extra), trace)
    if draw.random() < trouble.repeated:
        again = features if draw.random() < 0.6 else [value + 1 for value in features]
        value = _example(stream, id_, again, extra)
        yield Sent(Side.EXAMPLES, stream.partition, now_ms + draw.choice((0, 5, 40, 200)), key, value)
    if draw.random() >= trouble.unlabelled:
        yield from _labels(draw, stream, id_, truth, now_ms, trouble)
    if draw.random() < trouble.garbage:
        for _ in range(draw.choice((1, 1, 2, 5))):
            yield _garbage(draw, stream, now_ms)
    if draw.random() < trouble.oversized:
        yield _oversized(draw, stream, now_ms)
    if draw.random() < trouble.marks:
        yield from _marks(draw, stream, number, now_ms, learners)


def _example(stream: StreamOf, id_: str, features: Sequence[float], country: str) -> bytes:
    """Return the value of an example; of a stream with columns, with gaps, and sometimes with an unknown column."""
    if stream.features:
        return codec.encode(Example(stream.name, id_, features))
    amount = None if id_.endswith("3") else features[0]
    values: dict[str, Value] = {"amount": amount, "country": "" if id_.endswith("5") else country}
    if id_.endswith("7"):
        values["amont"] = values.pop("amount")
    return codec.encode(Example(stream.name, id_, values=values))


def _odd_time(draw: Random, sent: Sent, trouble: Trouble) -> Sent:
    """Return a record whose producer has a wrong clock, another unit, or sends history."""
    if draw.random() >= trouble.odd_times or sent.time_ms <= 0:
        return sent
    ages_ms = (3 * 365 * DAY_MS, 40 * DAY_MS, 5 * DAY_MS, DAY_MS, -HOUR_MS)
    return sent._replace(time_ms=draw.choice((*(sent.time_ms - age_ms for age_ms in ages_ms), sent.time_ms // 1_000)))


def is_odd(sent: Sent) -> bool:
    """Say whether the time of a record is not of the day on which it was meant to be sent."""
    return sent.time_ms > 0 and abs(sent.time_ms - START_MS) >= HOUR_MS


def _traces(number: int) -> Sequence[tuple[Header, ...]]:
    """Return headers with a trace context that is carried, and with some that are not."""
    valid = ("traceparent", b"00-%032x-%016x-01" % (number + 1, number + 1))
    no_trace = ("traceparent", b"00-%032x-%016x-01" % (0, number + 1))
    short = ("traceparent", b"00-%032x-01" % (number + 1))
    return ((valid,), (valid,), (valid, ("other", b"x")), (valid, valid), (no_trace,), (short,))


def _oversized(draw: Random, stream: StreamOf, now_ms: int) -> Sent:
    """Return a record whose dead letter has to leave out headers, value or everything if the topic's limit is low."""
    sizes = [draw.choice((0, 300, LARGE_BYTES)) for _ in range(3)]
    value, header, key = (draw.randbytes(1) * size for size in sizes)
    side = draw.choice((Side.EXAMPLES, Side.LABELS))
    return Sent(side, stream.partition, now_ms, key or stream.name.encode(), value, (("large", header),))


def _labels(draw: Random, stream: StreamOf, id_: str, truth: int, now_ms: int, trouble: Trouble) -> Iterator[Sent]:
    """Yield labels: mostly one, soon or late; some before their examples, some without an example."""
    key, time_ms = stream.name.encode(), now_ms + draw.choice((1, 5, 5, 15, 30, 60, 150))
    if draw.random() < 0.1:
        time_ms = now_ms - draw.choice((1, 8, 20))
    value = codec.encode(Label(stream.name, id_, truth))
    yield Sent(Side.LABELS, stream.partition, time_ms, key, value)
    if draw.random() < trouble.repeated:
        for _ in range(draw.choice((1, 1, 2, 3))):
            again = Label(stream.name, id_, truth ^ draw.randrange(2), draw.choice((0, 1, 1, 2)))
            yield Sent(Side.LABELS, stream.partition, time_ms + draw.choice((0, 5, 100)), key, codec.encode(again))
    if draw.random() < trouble.repeated / 2:
        nobody = Label(stream.name, f"{id_}-nobody", 0)
        yield Sent(Side.LABELS, stream.partition, time_ms, key, codec.encode(nobody))


def _garbage(draw: Random, stream: StreamOf, now_ms: int) -> Sent:
    """Return a record that cannot be used, in one of many ways."""
    key, name = stream.name.encode(), stream.name
    nobody = f"nobody{stream.partition}"  # if unknown streams have models, each belongs to one partition
    side = draw.choice((Side.EXAMPLES, Side.LABELS))
    values: list[bytes | None] = [
        None,
        b"",
        draw.randbytes(20),
        codec.encode(Label(name, "x", 1)) if side is Side.EXAMPLES else codec.encode(Example(name, "x", [1.0])),
        codec.encode(Label(name, "x", 1))[:-1],
        codec.encode(Example(name, "x", [0.0] * 5)),
        codec.encode(Example(nobody, "x", [0.0])),
        codec.encode(
            Label(name, "x", 1) if side is Side.LABELS else Example(name, "x", [0.0] * (stream.features or 4))
        ),
        codec.encode(Label(nobody, "x", 1)),
        b"\x00" * 300,
    ]
    headers = (
        (("source", b"a scale"),),
        (("source", None), ("source", b"")),
        ((START, b"x"), ("source", b"")),
        ((SENT_BACK, b"3"),),
        (),
    )
    keys = (key, key, nobody.encode(), b"x", None)
    return Sent(
        side,
        stream.partition,
        draw.choice((now_ms, now_ms, 0)),
        draw.choice(keys),
        draw.choice(values),
        draw.choice(headers),
    )


def _marks(draw: Random, stream: StreamOf, number: int, now_ms: int, learners: Sequence[str]) -> Iterator[Sent]:
    """Yield a pair of marks that closes, half a pair, a promotion, or a mark that erases."""
    what = draw.randrange(5)
    if what == 0:
        learner = draw.choice((*learners, "nobody"))
        mark = codec.encode(Mark(stream.name, MarkKind.PROMOTE, learner=learner))
        yield Sent(Side.EXAMPLES, stream.partition, now_ms, stream.name.encode(), mark)
        return
    if what == 4:
        ids = [f"{stream.name}-{max(0, number - draw.choice((0, 0, 1, 3)))}" for _ in range(draw.choice((1, 2)))]
        digests = "".join(id_digest(stream.name, id_) for id_ in ids)
        mark = codec.encode(Mark(stream.name, MarkKind.ERASE, digests=digests))
        yield Sent(Side.EXAMPLES, stream.partition, now_ms, stream.name.encode(), mark)
        return
    pair = _pair(stream, now_ms - draw.choice((0, 0, 30)), now_ms + draw.choice((0, 20)))
    yield from pair[:1] if what == 1 else pair


THRESHOLDS: Sequence[tuple[str, float | None]] = (
    ("majority", None),
    ("score", 0.4),
    ("probability", 0.2),
    ("alerts", 0.25),
    ("alerts", 0.25),
    ("costs", None),
)
"""Thresholds that are promoted: one often twice, and one that most streams cannot have."""


def with_thresholds(draw: Random, records: Sequence[Sent], streams: Sequence[StreamOf]) -> Sequence[Sent]:
    """Return the records with marks that promote thresholds between them, at any place."""
    found = list(records)
    for _ in range(draw.randint(1, 6)):
        stream, (kind, threshold) = draw.choice(streams), draw.choice(THRESHOLDS)
        mark = codec.encode(Mark(stream.name, MarkKind.DECIDE, threshold_kind=kind, threshold=threshold))
        place, side = draw.randrange(len(found)), draw.choice((Side.EXAMPLES, Side.EXAMPLES, Side.LABELS))
        time_ms = max(START_MS, found[place].time_ms)
        found.insert(place, Sent(side, stream.partition, time_ms, stream.name.encode(), mark))
    return found


def _pair(stream: StreamOf, to_ms: int, time_ms: int) -> tuple[Sent, Sent]:
    value = codec.encode(Mark(stream.name, MarkKind.ADVANCE, time_ms=to_ms))
    examples, labels = (Sent(side, stream.partition, time_ms, stream.name.encode(), value) for side in Side)
    return examples, labels
