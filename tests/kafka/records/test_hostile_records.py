"""For any bytes that a broker accepts, no worker ends, and every record has a named outcome."""

import io
import itertools
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ops.broker import Broker
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.partitioner import partition_of
from stream_app.backends.retention import FOREVER
from stream_app.records import Example, Label, Mark, MarkKind, Side
from stream_app.serialization.codec import encode_unchecked as encode
from stream_app.serialization.dead_letter import DEAD_LETTER_HEADERS
from stream_app.serialization.left_out import read_left_out
from stream_app.terminal import Terminal
from stream_app.verify.results import Code
from stream_app.verify.verify import verify
from tests.support.kafka.application import App, Section
from tests.support.kafka.processes import WorkerProcess, areba, workers
from tests.support.kafka.progress import Progress
from tests.support.kafka.records import label
from tests.support.kafka.waiting import START_DEADLINE_S, wait_until
from tests.support.raw import RawProducer, RawRecord

pytestmark = [pytest.mark.kafka, pytest.mark.slow(40)]

RECORDS = 100_000
BATCH = 250
PARTITIONS = 2
STREAMS = ("pumps", "größe", "mills", "turbines")

MANY = 1_000_000
"""The limit of malformed records, so high that the breaker does not stop a task for them."""

SECTIONS: Mapping[str, Section] = {
    "streams": {name: {"features": 2} for name in STREAMS},
    "breaker": {"in_a_row": MANY, "share": 1.0},
    "join": {"max_pending_per_stream": 2_000, "max_waiting_per_stream": 500},
    "worker": {"commit_interval_ms": 100, "max_restarts": 0},
}

THRESHOLDS = (("score", 0.4), ("alerts", 0.1), ("costs", None), ("majority", 3.0), (None, None))
"""Thresholds of marks; the last three ask for costs that no stream has, for too much, or for nothing."""

LARGE_BYTES = 5_000_000
"""Far more than any topic accepts uncompressed; compressed zeros take some kB."""

TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def _headers(draw: random.Random) -> Sequence[tuple[bytes, bytes | None]]:
    """Return headers: mostly none, sometimes as a hostile or careless producer sends them."""
    if draw.random() < 0.8:
        return ()
    names = (
        b"source", b"traceparent", b"", b"\xff\xfe", b"\xc3\x28", b"nul\0nul", b"\x1b[2J", "größe".encode(),
        b"areba.reason", b"areba.value.length", b"areba.value.sha256", b"areba.headers.unreadable",
        b"areba.resend-start", *(name.encode() for name in DEAD_LETTER_HEADERS), draw.randbytes(draw.randrange(1, 40)),
    )  # fmt: skip
    values = (None, b"", b"a scale", TRACE, TRACE.upper(), b"9" * 30, draw.randbytes(draw.randrange(60)))
    return [(draw.choice(names), draw.choice(values)) for _ in range(draw.choice((1, 1, 2, 7)))]


def _value(draw: random.Random, side: Side, stream: str, number: int) -> bytes | None:
    """Return a value: mostly data, sometimes cut, with flipped bits, of the other side, or missing."""
    id_ = f"{number}" if draw.random() < 0.95 else draw.choice(("[/a]", "\x1b[31m", "\n", "x" * 65, "", "0"))
    content: Example | Label | Mark = Label(stream, id_, draw.choice((0, 0, 0, 1)), draw.choice((0, 0, 1)))
    if (side is Side.EXAMPLES) is not (draw.random() < 0.01):
        content = Example(stream, id_, [draw.gauss(0.0, 1.0) for _ in range(draw.choice((2,) * 40 + (0, 1, 3)))])
    if draw.random() < 0.01:
        content = Mark(stream, MarkKind.PROMOTE, learner=draw.choice(("areba", "[/a]")))
    if draw.random() < 0.01:
        kind, threshold = draw.choice(THRESHOLDS)
        content = Mark(stream, MarkKind.DECIDE, threshold_kind=kind, threshold=threshold)
    value = bytearray(encode(content))
    fate = draw.random()
    if fate < 0.02:
        value[draw.randrange(len(value))] ^= 1 << draw.randrange(8)
    elif fate < 0.03:
        del value[draw.randrange(len(value)) :]
    elif fate < 0.04:
        return draw.choice((None, b"", draw.randbytes(draw.randrange(1, 80))))
    return bytes(value)


def _records(draw: random.Random, side: Side, partition: int, start_ms: int, count: int) -> Iterator[RawRecord]:
    """Yield records of streams that belong there, and of `[/a]`, which is not configured."""
    streams = [name for name in STREAMS if partition_of(name.encode(), PARTITIONS) == partition]
    for number in range(count):
        stream = draw.choice(streams) if draw.random() < 0.98 else "[/a]"
        key: bytes | None = stream.encode()
        if draw.random() < 0.02:
            key = draw.choice((None, b"", b"\xff", b"\x1b]0;owned\x07", draw.randbytes(300)))
        time_ms = start_ms + number + draw.choice((0, 0, 5, -40))
        if draw.random() < 0.005:
            time_ms = draw.choice((0, -1, -2, 1, start_ms - 10**10, start_ms + 10**6))
        yield RawRecord(time_ms, key, _value(draw, side, stream, number), _headers(draw))


def _monsters(now_ms: int) -> list[RawRecord]:
    """Return records that are small only when compressed: a large value, header or key, many headers, or all."""
    zeros = bytes(LARGE_BYTES)
    many = [(b"traceparent", TRACE)] * 40_000
    return [
        RawRecord(now_ms, b"pumps", zeros),
        RawRecord(now_ms + 1, b"pumps", encode(Example("nobody", "x", [1.0, 2.0])), [(b"traceparent", zeros)]),
        RawRecord(now_ms + 2, b"pumps", encode(Example("pumps", "monster", [1.0, 2.0])), many),
        RawRecord(now_ms + 3, zeros, b"no record"),
        RawRecord(now_ms + 4, zeros, zeros, [(b"large", zeros)]),
    ]


def _batches(rows: Iterator[RawRecord], now_ms: int) -> Iterator[tuple[list[RawRecord], bool]]:
    """Yield the records of each request, and whether it is compressed; every fourth request is a single huge record."""
    monsters = _monsters(now_ms)
    for number in itertools.count():
        batch = list(itertools.islice(rows, BATCH))
        if not batch:
            return
        yield batch, bool(number % 2)
        if monsters and number % 4 == 0:
            yield [monsters.pop()], True


def _send_all(app: App, server: str) -> int:
    """Send everything, both sides of both partitions in turn; return how many records the broker accepted."""
    draw, taken = random.Random("hostile"), 0
    now_ms = int(time.time() * 1000) - 2 * RECORDS
    places = [(topic, side, number) for number in range(PARTITIONS) for side, topic in enumerate(app.input_topics)]
    count = RECORDS // len(places)
    queues = [_batches(_records(draw, Side(side), number, now_ms, count), now_ms + 1_000) for _, side, number in places]
    with RawProducer(server) as producer:
        for turn in zip(*queues, strict=True):
            for (topic, _, number), (batch, compressed) in zip(places, turn, strict=True):
                assert producer.send(topic, number, batch, compressed=compressed) == 0
                taken += len(batch)
    return taken


def test_any_bytes_end_in_a_named_outcome(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """100,000 raw records and some that no output topic accepts stop no worker, not even after a kill; all are counted.

    Otherwise a single record could stop every task of the group, worker by worker.
    """
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, prefix, tmp_path, SECTIONS, partitions=PARTITIONS)
    app.create_topics(FOREVER)
    with workers(app, "w") as (worker,), Progress(app) as progress:
        worker.start()
        worker.wait_for("compiled seconds=")
        taken = _send_all(app, kafka.bootstrap_servers.split(",")[0])
        assert taken == RECORDS + 5 * 2 * PARTITIONS
        progress.wait_for_more(2)
        worker.kill()
        worker.start()  # it counts the outputs of the last commits, whose headers are any bytes
        worker.wait_for("restored task=", PARTITIONS)
        progress.wait_for_ends(app.input_ends(), START_DEADLINE_S)
        assert worker.stop() == 0
        assert "aborted" not in worker.log()
        assert "traces-dropped task=" in worker.log()
    report = verify(app.cluster, app.config, rerun=True)
    findings = [each for each in report.findings if each.code is not Code.SPLIT_STREAM]  # keys belong to any partition
    assert not findings, findings[:20]
    figures = report.figures.values()
    assert sum(each.examples + each.labels for each in figures) == taken
    assert sum(each.joined for each in figures) > RECORDS / 100, "it is not all garbage"
    letters = [read for number in range(PARTITIONS) for read in app.outputs(number)["dead-letters"]]
    lost = [read_left_out(read.headers)[1] for read in letters]
    assert sum("value" in left_out for left_out in lost) == 3 * 2 * PARTITIONS
    assert sum("key" in left_out for left_out in lost) == 2 * 2 * PARTITIONS
    out = io.StringIO()
    report.show(Terminal(file=out, width=120))
    assert all(letter.isprintable() or letter == "\n" for letter in out.getvalue())


def _lower(cluster: KafkaCluster, topic: str, most_bytes: int) -> None:
    """Lower the limit of a topic, as `kafka-configs.sh` does."""
    from confluent_kafka.admin import (  # type: ignore[attr-defined]  # noqa: PLC0415
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    entry = ConfigEntry("max.message.bytes", str(most_bytes), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    cluster._admin.incremental_alter_configs([resource])[resource].result(30)


def _good(worker: WorkerProcess) -> None:
    assert "restarting the process" not in worker.log()


def test_a_topic_that_takes_less_than_it_did(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """An operator lowers `max.message.bytes` of the dead letters: the worker reads the limit again after an error.

    Otherwise the task would abort in a loop.
    """
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, prefix, tmp_path, SECTIONS)
    app.create_topics(FOREVER)
    now_ms = int(time.time() * 1000) - 100_000
    value = bytes(range(256)) * 4_090  # 1,047,040 bytes: the topic accepts it as it was created
    with workers(app, "w") as (worker,), Progress(app) as progress:
        worker.start()
        worker.wait_for("compiled seconds=")
        with RawProducer(kafka.bootstrap_servers.split(",")[0]) as producer:
            assert producer.send(app.input_topics[0], 0, [RawRecord(now_ms, b"pumps", value)]) == 0
            progress.wait_for_ends(app.input_ends(), START_DEADLINE_S)
            _lower(app.cluster, app.config.topics.dead_letters, 1_001_024)
            assert producer.send(app.input_topics[0], 0, [RawRecord(now_ms, b"pumps", value)]) == 0
        app.send([label("pumps", "nobody", 1, now_ms + 1)])
        progress.wait_for_ends(app.input_ends(), START_DEADLINE_S)
        wait_until(lambda: "changed task=0 dead_letter_bytes: 1064972 -> 1001024" in worker.log(), "the new limit")
        _good(worker)
        assert worker.stop() == 0
    report = verify(app.cluster, app.config, rerun=True)
    findings = [each for each in report.findings if each.code is not Code.SPLIT_STREAM]  # keys belong to any partition
    assert not findings, findings[:20]
    letters = app.outputs(0)["dead-letters"]
    assert [letter.value for letter in letters] == [value, None]
    place = f"0:{letters[1].offset}"
    shown = areba(app.file("w"), "dlq", "show", place)
    assert (shown.returncode, "1,047,040 bytes" in shown.stdout) == (0, True), shown.stderr
