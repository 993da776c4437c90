"""Measure the latency and the CPU time of a program at a steady rate."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from statistics import median
from typing import NamedTuple

import numpy as np

from benchmarks.peers.inputs import STREAM
from benchmarks.peers.measurement import cpu_s
from benchmarks.way import fraud
from ops.keeper import KeptProcess
from ops.local_kafka.cluster import LocalKafka
from stream_app.backends.base import TopicPartition
from stream_app.backends.following import LogFollower
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.config import Config
from stream_app.record_columns import RawRecords
from stream_app.records import Label
from stream_app.serialization import codec
from stream_app.serialization.encode import encode_examples

RATE = 2_000
"""Examples a second, and as many labels."""

LATENCY_S = 20.0

WARM_S = 8.0
"""The first seconds of a run do not count: the program has just started."""

_LINGER_MS = 2
_RUN_RECORDS = RATE * _LINGER_MS // 1000
"""Records in a row that are of one stream: as many as the sender puts into a request. If each record were for another
partition than the one before, the sender would make a request for each, and those would cost the broker more than the
program that is measured."""

_LABEL_DELAY_S = 0.1
_LIMIT_S = 120.0
_POLL_S = 0.02
_STOP_S = 30.0
_PROBE = "probe"


class Watched(NamedTuple):
    """What a program reads, and which of its outputs are waited for.

    Attributes:
        examples: The topic of the examples.
        labels: The topic of the labels.
        key_of: Returns the key of the records of a stream with an id.
        output: The output topic.
        ids_of: Returns the ids of records of the output topic.
        answers_labels: Whether the outputs answer labels; otherwise they answer examples.
        streams: The streams that get the records in turns.
        partitions: Of the output topic.
    """

    examples: str
    labels: str
    key_of: Callable[[str, str], bytes]
    output: str
    ids_of: Callable[[RawRecords], Sequence[str]]
    answers_labels: bool
    streams: Sequence[str] = (STREAM,)
    partitions: int = 1


class Latency(NamedTuple):
    """Figures of one run: milliseconds, and CPU seconds in a second."""

    p50_ms: float
    p99_ms: float
    program_cores: float
    broker_cores: float


def median_of(runs: Sequence[Latency]) -> Latency:
    """Return the median of each figure."""
    return Latency(*(median(figures) for figures in zip(*runs, strict=True)))


def predictions_of(config: Config) -> Watched:
    """Return what areba reads, and its predictions, which answer examples."""
    topics = config.topics
    return Watched(topics.examples, topics.labels, _stream_key, topics.predictions, _decoded_ids, answers_labels=False)


def outcomes_of(config: Config) -> Watched:
    """Return what areba reads, and its outcomes, which answer labels."""
    topics = config.topics
    return Watched(topics.examples, topics.labels, _stream_key, topics.outcomes, _decoded_ids, answers_labels=True)


def joins_of(inputs: tuple[str, str], output: str) -> Watched:
    """Return what a program reads that joins by key, and its joined records, which answer labels."""
    return Watched(*inputs, _id_key, output, _keys, answers_labels=True)


def _stream_key(stream: str, _: str) -> bytes:
    return stream.encode()


def _id_key(_: str, id_: str) -> bytes:
    return id_.encode()


def _decoded_ids(records: RawRecords) -> Sequence[str]:
    decoded = codec.decode_many([value or b"" for value in records.values])
    return [record.id for record in decoded]  # type: ignore[union-attr]  # predictions or outcomes


def _keys(records: RawRecords) -> Sequence[str]:
    return [(key or b"").decode() for key in records.keys]


def latency(kafka: LocalKafka, process: KeptProcess, watched: Watched) -> Latency:
    """Measure a program that has just been started, and end it.

    Raises:
        TimeoutError: The program answered nothing in time.
    """
    seen: dict[str, float] = {}
    stop = threading.Event()
    starts = {TopicPartition(watched.output, number): 0 for number in range(watched.partitions)}
    with closing(KafkaCluster(kafka.bootstrap_servers).follow(starts)) as follower:
        thread = threading.Thread(target=_read, args=(follower, watched, seen, stop))
        thread.start()
        try:
            meter = _CpuMeter(process.pid, kafka.pid(1))
            sent = _send_at_rate(kafka.bootstrap_servers, watched, seen, meter)
            deadline = time.monotonic() + _LIMIT_S
            while len(seen) < len(sent) + 1 and time.monotonic() < deadline:
                time.sleep(_POLL_S)
        finally:
            process.end(_STOP_S)
            stop.set()
            thread.join()
    first = min(sent.values()) + WARM_S
    delays = [seen[name] - when for name, when in sent.items() if when >= first and name in seen]
    p50, p99 = (float(value) * 1000 for value in np.percentile(delays, (50, 99)))
    return Latency(p50, p99, *meter.cores())


class _CpuMeter:
    """Measures the CPU time of the program and of the broker while records are sent."""

    def __init__(self, *processes: int) -> None:
        self._processes = processes
        self._marks: list[tuple[float, ...]] = []

    def mark(self) -> None:
        """Begin or end the measurement."""
        self._marks.append((time.monotonic(), *map(cpu_s, self._processes)))

    def cores(self) -> tuple[float, ...]:
        """Return the CPU seconds in a second, of each process, from the first mark to the last."""
        seconds, *used = (last - first for first, last in zip(self._marks[0], self._marks[-1], strict=True))
        return tuple(value / seconds for value in used)


def _send_at_rate(servers: str, watched: Watched, seen: dict[str, float], meter: _CpuMeter) -> dict[str, float]:
    """Send examples at a steady rate, and their labels a little later; return when what is answered was sent, by id."""
    with closing(KafkaSender(servers, {"linger.ms": str(_LINGER_MS)})) as sender:
        stream = fraud(int(RATE * LATENCY_S))
        ids = [f"e{number}" for number in range(len(stream.labels))]
        names = watched.streams
        streams = [names[number // _RUN_RECORDS % len(names)] for number in range(len(ids))]
        values = [encode_examples(streams[n], [ids[n]], stream.examples[n : n + 1])[0] for n in range(len(ids))]
        _await_probe(sender, watched, seen, encode_examples(streams[0], [_PROBE], stream.examples[:1])[0])
        sent: dict[str, float] = {}
        begin, late = time.monotonic(), int(RATE * _LABEL_DELAY_S)
        for number, value in enumerate(values):
            if number == RATE * WARM_S:
                meter.mark()
            due = begin + number / RATE
            while (wait := due - time.monotonic()) > 0:
                time.sleep(min(wait, 0.001))
            answered = ids[max(number - late, 0)] if watched.answers_labels else ids[number]
            sent[answered] = time.monotonic()
            now_ms = int(time.time() * 1000)
            sender.send(watched.examples, watched.key_of(streams[number], ids[number]), value, now_ms)
            if number >= late:
                own, id_ = streams[number - late], ids[number - late]
                label = codec.encode(Label(own, id_, int(stream.labels[number - late])))
                sender.send(watched.labels, watched.key_of(own, id_), label, now_ms)
        meter.mark()
        sender.flush(_LIMIT_S)
    return sent


def _await_probe(sender: KafkaSender, watched: Watched, seen: dict[str, float], example: bytes) -> None:
    """Send one example with its label, and wait until the program has answered, so that it is running."""
    now_ms, stream = int(time.time() * 1000), watched.streams[0]
    sender.send(watched.examples, watched.key_of(stream, _PROBE), example, now_ms)
    sender.send(watched.labels, watched.key_of(stream, _PROBE), codec.encode(Label(stream, _PROBE, 0)), now_ms)
    sender.flush(_LIMIT_S)
    deadline = time.monotonic() + _LIMIT_S
    while _PROBE not in seen:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{watched.output}: the program did not answer within {_LIMIT_S:g} s")
        time.sleep(_POLL_S)


def _read(follower: LogFollower, watched: Watched, seen: dict[str, float], stop: threading.Event) -> None:
    """Record when each output could be read."""
    while not stop.is_set():
        for fetched in follower.poll(1000, _POLL_S):
            now = time.monotonic()
            for id_ in watched.ids_of(fetched.records):
                seen[id_] = now
