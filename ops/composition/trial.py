"""Start the composition, watch it, kill a worker, verify the topics, stop it."""

import json
import re
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from ops.composition.compose import Composition
from ops.demo.streams import SPAN_MS
from stream_app.backends.base import TopicPartition
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.config import Config
from stream_app.errors import ArebaError, ConfigurationError
from stream_app.records import Example
from stream_app.serialization.codec import encode

Value = TypeVar("Value")

SERVERS = "127.0.0.1:9094"

PAGES = {"worker-1": "http://127.0.0.1:8081", "worker-2": "http://127.0.0.1:8082"}

DASHBOARD = "http://127.0.0.1:8050/"

TARGETS_UP = "http://127.0.0.1:9090/api/v1/query?query=up"

CONFIGURATION = "/etc/areba/areba.yaml"

STREAMS = 6

WAIT_S = 180.0
"""The longest wait for one thing: a broker that starts, a group that settles, tasks that are restored."""

POLL_S = 0.1

REQUEST_TIMEOUT_S = 5.0

KILL_WORKER = "kill -9 $(grep -lx areba /proc/[1-9]*/comm | cut -d/ -f3)"
"""Kills the worker inside its container: engines do not restart a container that they were asked to kill."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the trial saw.

    Attributes:
        is_loaded: Whether the first worker loaded its compiled code, and compiled nothing.
        first_prediction_s: Time from the start of its process to the prediction of an example that waited for it.
        first_gmean_s: Time from the beginning, with all images present, to the first G-mean on the dashboard.
        targets: Number of workers that Prometheus reached; None: its image is not there.
        return_s: Time from the kill of a worker's process to a new process that is ready.
        predictions: Records of the topic of predictions at the end, transaction markers included.
        shown: G-mean of each stream's champion on the dashboard, at the end.
        watched: The same as `areba watch` prints it.
        verified: What `areba verify` printed; it ended with status 0.
    """

    is_loaded: bool
    first_prediction_s: float
    first_gmean_s: float
    targets: int | None
    return_s: float
    predictions: int
    shown: Mapping[str, float | None]
    watched: Mapping[str, float | None]
    verified: str


def run(engine: str, rate: int, limit: int, tell: Callable[[str], None]) -> Seen:
    """Run the trial.

    Args:
        engine: `docker` or `podman`.
        rate: Examples of each stream per second.
        limit: Examples of each stream.
        tell: Called with a line for each step.

    Raises:
        ConfigurationError: The engine failed, or something did not happen in time.
    """
    variables = {"REPLAY_RATE": str(rate), "REPLAY_LIMIT": str(limit)}
    composition = Composition(engine, f"areba-trial-{uuid.uuid4().hex[:6]}", variables)
    with _taken_down(composition):
        return _watch(composition, tell)


@contextmanager
def _taken_down(composition: Composition) -> Iterator[None]:
    try:
        yield
    finally:
        composition.down()


def _watch(composition: Composition, tell: Callable[[str], None]) -> Seen:
    begin_s = time.monotonic()
    kafka = KafkaCluster(SERVERS)
    composition.up("kafka", "topics")
    _until(lambda: _has_topics(kafka), "the topics are there")
    _send_example()
    tell("Kafka runs, with topics and an example")

    composition.up("worker-1")
    _until(lambda: _end(kafka, "predictions") > 0, "the first prediction")
    first_prediction_s = time.time() - _until(lambda: _started_at_s("worker-1"), "worker-1 answers")
    log = composition.logs("worker-1")
    is_loaded = " compiled seconds=" in log and " compiling " not in log
    tell(f"first prediction {first_prediction_s:.1f} s after the start of the worker's process")

    optional = [service for service in ("prometheus", "grafana") if composition.has_image(service)]
    composition.up("replayer", "dashboard", "worker-2", *optional)
    for worker in PAGES:
        _until(partial(_is_ready, worker), f"{worker} is ready")
    tell(f"two workers are ready; running too: {', '.join(optional) or 'neither Prometheus nor Grafana'}")
    _until(lambda: any(gmean is not None for gmean in _shown().values()), "a G-mean on the dashboard")
    first_gmean_s = time.monotonic() - begin_s
    tell(f"first G-mean on {DASHBOARD} {first_gmean_s:.1f} s after the beginning")
    targets = None
    if "prometheus" in optional:
        _until(lambda: _targets() == len(PAGES), "Prometheus reaches the workers")
        targets = _targets()
        tell(f"Prometheus reaches {targets} workers")

    before_s = _started_at_s("worker-2")
    killed_s = time.monotonic()
    with suppress(ConfigurationError):  # the container may end before its engine has the status of the command
        composition.execute("worker-2", "sh", "-c", KILL_WORKER)
    _until(lambda: _started_at_s("worker-2") > before_s and _is_ready("worker-2"), "the killed worker is back")
    return_s = time.monotonic() - killed_s
    tell(f"worker-2 was killed, and is ready again after {return_s:.1f} s")

    _until(lambda: composition.logs("replayer").count("digest ") >= STREAMS, "the replayer has sent everything")
    _until(lambda: _lag(composition) == 0, "everything is processed")
    verified = composition.execute("worker-1", "areba", "verify", "-c", CONFIGURATION)
    predictions = _end(kafka, "predictions")
    tell(f"areba verify found nothing wrong; {predictions:,} offsets of predictions")
    watched, shown = _watched(composition), _shown()
    tell(f"G-mean of the champions on {DASHBOARD}: {', '.join(f'{name} {gmean}' for name, gmean in shown.items())}")
    return Seen(is_loaded, first_prediction_s, first_gmean_s, targets, return_s, predictions, shown, watched, verified)


def _until(happened: Callable[[], Value], what: str) -> Value:
    """Wait until a call returns something that is true, and return it.

    Raises:
        ConfigurationError: It did not within `WAIT_S`.
    """
    deadline = time.monotonic() + WAIT_S
    while not (value := happened()):
        if time.monotonic() > deadline:
            raise ConfigurationError(f"this did not happen within {WAIT_S:.0f} s: {what}")
        time.sleep(POLL_S)
    return value


def _has_topics(kafka: KafkaCluster) -> bool:
    topics = Config().topics
    with suppress(ArebaError):
        return bool(kafka.broker_count(REQUEST_TIMEOUT_S)) and len(kafka.topics(topics)) == len(topics)
    return False


def _send_example() -> None:
    """Send one example, older than the replayer's: with more examples, the time would include learning from them."""
    with closing(KafkaSender(SERVERS)) as sender:
        time_ms = int(time.time() * 1000) - 2 * SPAN_MS
        sender.send("examples", b"sine", encode(Example("sine", "first", [0.5, 0.5])), time_ms)
        sender.flush(REQUEST_TIMEOUT_S)


def _end(kafka: KafkaCluster, topic: str) -> int:
    """Return the sum of the ends of a topic's partitions; 0 while there is no broker or no topic."""
    with suppress(ArebaError):
        if kafka.broker_count(REQUEST_TIMEOUT_S):
            found = kafka.topics([topic])
            partitions = [TopicPartition(name, n) for name, one in found.items() for n in range(one.partitions)]
            return sum(ends.stable for ends in kafka.ends(partitions).values()) if partitions else 0
    return 0


def _lag(composition: Composition) -> int:
    """Return the number of input offsets that are not processed."""
    text = composition.execute("worker-1", "areba", "inspect", "-c", CONFIGURATION, "--json")
    tasks = json.loads(text[text.index("{") : text.rindex("}") + 1])["tasks"]
    return sum(int(task[side]["lag"]) for task in tasks for side in ("examples", "labels"))


def _get(address: str) -> str | None:
    """Return a page; None without an answer, or if its status is not 200."""
    try:
        with urllib.request.urlopen(address, timeout=REQUEST_TIMEOUT_S) as answer:  # noqa: S310  (a constant with http)
            return str(answer.read().decode())
    except (urllib.error.URLError, OSError):
        return None


def _watched(composition: Composition) -> dict[str, float | None]:
    """Return the G-mean of each stream's champion, as `areba watch` reads it from the topics."""
    text = composition.execute("worker-1", "areba", "watch", "-c", CONFIGURATION, "--once", "--json")
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {row["stream"]: row["windows"][0]["gmean"] for row in rows if row.get("champion")}


def _shown() -> dict[str, float | None]:
    """Return the G-mean of each stream's champion, as the dashboard sends it to a browser; empty without an answer."""
    with (
        suppress(urllib.error.URLError, OSError),
        urllib.request.urlopen(f"{DASHBOARD}events", timeout=REQUEST_TIMEOUT_S) as answer,  # noqa: S310  (see _get)
    ):
        answer.readline()  # event: overview
        document = json.loads(answer.readline().removeprefix(b"data: ") or "{}")
        return {stream["name"]: stream["gmean"] for stream in document.get("streams", ())}
    return {}


def _is_ready(worker: str) -> bool:
    return _get(f"{PAGES[worker]}/ready") is not None


def _started_at_s(worker: str) -> float:
    """Return when the process of a worker was started, in seconds since 1970; 0 if it does not answer."""
    found = re.search(r"^process_start_time_seconds (\S+)$", _get(f"{PAGES[worker]}/metrics") or "", re.MULTILINE)
    return float(found[1]) if found else 0.0


def _targets() -> int:
    """Return the number of workers that Prometheus reached last."""
    answer = json.loads(_get(TARGETS_UP) or '{"data": {"result": []}}')
    return sum(one["metric"]["job"] == "areba" and one["value"][1] == "1" for one in answer["data"]["result"])
