"""Run a worker at a low rate, and time its steps and the requests of its transactions."""

import json
import logging
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.kafka.worker import configuration
from benchmarks.way import fraud
from ops.keeper import KeptProcess
from ops.local_kafka.cluster import LocalKafka
from ops.local_kafka.jars import kafka_jars
from stream_app.backends.clock import SystemClock
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.backends.kafka.source import KafkaSource
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.cli.topic_setup import create_topics
from stream_app.cli.warm_up import warm_up
from stream_app.records import Label
from stream_app.serialization import codec
from stream_app.serialization.encode import encode_examples
from stream_app.worker.ports import Ports
from stream_app.worker.reports.observer import Observer
from stream_app.worker.worker import Worker

RATE = 2_000
LATE_EXAMPLES = 200
WARM_S, TRACED_S, LOGGED_S = 8.0, 60.0, 15.0
"""The worker and the broker get warm; then the worker is traced; then the broker logs its requests."""

STOP_S = 5.0

CLIENT = "commit-trace"

STEPS = ("poll", "compute", "begin", "send offsets", "produce", "flush", "commit")
API_KEYS = {25: "AddOffsetsToTxn", 28: "TxnOffsetCommit", 24: "AddPartitionsToTxn", 0: "Produce", 26: "EndTxn"}
"""Kafka's numbers of these requests."""

ANSWER = re.compile(r"Received (\w+)Response \(.*, rtt ([\d.]+)ms\)")
COMPLETED = re.compile(r"Completed request:(\{.*\}) \(kafka\.request\.logger\)")


class Span(NamedTuple):
    """A step of the worker, by the monotonic clock."""

    step: str
    start_s: float
    end_s: float


class Trace(NamedTuple):
    """What was measured.

    Attributes:
        rounds: The steps of each round, from the end of a commit to the end of the next commit.
        requests: The round-trip times of each kind of request, in milliseconds, as the client measured them.
        broker: The times of these requests within the broker, in milliseconds.
    """

    rounds: Sequence[Sequence[Span]]
    requests: Mapping[str, Sequence[float]]
    broker: Mapping[str, Sequence[float]]


class _Answers(logging.Handler):
    """Collects the round-trip times from the client's debug lines."""

    def __init__(self) -> None:
        super().__init__()
        self.is_on = False
        self.found: dict[str, list[float]] = defaultdict(list)

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line."""
        found = ANSWER.search(record.getMessage())
        if found is not None and self.is_on:
            self.found[found[1]].append(float(found[2]))


@contextmanager
def _answers() -> Iterator[_Answers]:
    """Yield the round-trip times of the transactional client, while its lines go nowhere else."""
    logger, answers = logging.getLogger("areba.kafka"), _Answers()
    before = logger.level, logger.propagate
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(answers)
    try:
        yield answers
    finally:
        logger.removeHandler(answers)
        logger.setLevel(before[0])
        logger.propagate = before[1]


def _timed(spans: list[Span], step: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def timed(*arguments: object, **more: object) -> Any:  # noqa: ANN401  (what the call returns)
        start = time.monotonic()
        try:
            return call(*arguments, **more)
        finally:
            spans.append(Span(step, start, time.monotonic()))

    return timed


def run(kafka: LocalKafka) -> Trace:
    """Trace a worker on this broker."""
    servers = kafka.bootstrap_servers
    config = configuration(servers, "trace.")
    create_topics(config, 1, 1)
    warm_up(config.task_settings())
    clock, spans = SystemClock(), list[Span]()
    source = KafkaSource(servers, config.group_id)
    transaction = KafkaTransaction(servers, config.transactional_id, {"debug": "protocol", "client.id": CLIENT})
    for step in ("begin", "send_offsets", "produce", "flush", "commit"):
        setattr(transaction, step, _timed(spans, step.replace("_", " "), getattr(transaction, step)))
    source.poll = _timed(spans, "poll", source.poll)  # type: ignore[method-assign]
    ports = Ports(source, transaction, KafkaCluster(servers), clock, partial(KafkaTransaction, servers))
    worker = Worker(config, ports, Observer(clock))
    sender = KeptProcess([sys.executable, "-m", "benchmarks.commits", "--send-to", servers])
    with _answers() as answers:
        start = time.monotonic()

        def done() -> bool:
            passed = time.monotonic() - start
            answers.is_on = WARM_S <= passed < WARM_S + TRACED_S
            return passed >= WARM_S + TRACED_S

        try:
            worker.run(_logged_after(done, kafka, start))
        finally:
            sender.end(STOP_S)
    first, last = start + WARM_S, start + WARM_S + TRACED_S
    traced = [span for span in spans if first <= span.start_s and span.end_s <= last]
    return Trace(list(_rounds(traced)), answers.found, _in_broker(kafka.folder))


def _logged_after(done: Callable[[], bool], kafka: LocalKafka, start: float) -> Callable[[], bool]:
    """Return what says when the worker stops: once the broker has logged its requests for a while after the trace."""
    configuring: list[subprocess.Popen[bytes]] = []

    def stopped() -> bool:
        if done() and not configuring:
            configuring.append(_log_requests(kafka))
        return time.monotonic() - start > WARM_S + TRACED_S + LOGGED_S

    return stopped


def _log_requests(kafka: LocalKafka) -> "subprocess.Popen[bytes]":
    """Let the broker log each request with its times."""
    command = ["java", "-cp", str(kafka_jars() / "*"), "kafka.admin.ConfigCommand"]
    command += ["--bootstrap-server", kafka.bootstrap_servers, "--entity-type", "broker-loggers", "--entity-name", "1"]
    command += ["--alter", "--add-config", "kafka.request.logger=DEBUG"]
    return KeptProcess(command, stdout=subprocess.DEVNULL)


def _rounds(spans: Sequence[Span]) -> Iterator[Sequence[Span]]:
    """Yield the steps of each whole round; what lies between poll and begin is the computing."""
    found: list[Span] | None = None
    for span in spans:
        if found is not None:
            if span.step == "begin":
                found.append(Span("compute", found[-1].end_s, span.start_s))
            found.append(span)
        if span.step == "commit":
            if found is not None:
                yield found
            found = []


def _in_broker(folder: Path) -> dict[str, list[float]]:
    """Return the times of the traced client's requests within the broker, from the broker's log."""
    found: dict[str, list[float]] = defaultdict(list)
    for file in sorted(folder.glob("broker-1.log*")):
        for line in file.read_text(errors="replace").splitlines():
            match = COMPLETED.search(line)
            if match is None or CLIENT not in line:
                continue
            request = json.loads(match[1])
            name = API_KEYS.get(request["requestHeader"]["requestApiKey"])
            if name is not None:
                found[name].append(float(request["totalTimeMs"]))
    return found


def send(servers: str) -> None:
    """Send examples at a steady rate, and their labels a tenth of a second later, until this process is ended."""
    config = configuration(servers, "trace.")
    sender = KafkaSender(servers, {"linger.ms": "2"})
    stream, count = fraud(50_000), int(RATE * (WARM_S + TRACED_S + 2 * LOGGED_S))
    rows = np.arange(count) % len(stream.labels)
    values = encode_examples("fraud", [f"e{number}" for number in range(count)], stream.examples[rows])
    begin = time.monotonic()
    for number, value in enumerate(values):
        while (wait := begin + number / RATE - time.monotonic()) > 0:
            time.sleep(min(wait, 0.001))
        now = int(time.time() * 1000)
        sender.send(config.topics.examples, b"fraud", value, now)
        if number >= LATE_EXAMPLES:
            late = number - LATE_EXAMPLES
            label = Label("fraud", f"e{late}", int(stream.labels[rows[late]]))
            sender.send(config.topics.labels, b"fraud", codec.encode(label), now)
