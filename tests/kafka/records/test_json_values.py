"""JSON from end to end: any producer, hostile values, a worker that is killed, and the commands that read topics."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from ops.broker import Broker
from ops.local_kafka.cluster import LocalKafka
from stream_app.backends.base import TopicPartition
from stream_app.client import Example, Metric, Outcome, Prediction, decode
from stream_app.producers import cli
from stream_app.records import Side
from tests.support.documents import ROOT, blocks
from tests.support.kafka.application import App, Section
from tests.support.kafka.processes import areba, workers
from tests.support.kafka.topics import read_topic
from tests.support.kafka.waiting import DEADLINE_S, wait_until
from tests.support.rows import Sent

pytestmark = [pytest.mark.kafka, pytest.mark.slow(30)]
pytest.importorskip("msgspec", reason="areba[json] is not installed")

COUNT = 400
REPLAYED = 200

SECTIONS: dict[str, Section] = {
    "streams": {"pumps": {"features": 2}, "sine": {"features": 2}},
    "serialization": {"wire_format": "json"},
    "breaker": {"in_a_row": 1_000, "share": 1.0},
}

HOSTILE = (b"", b"{", b"\xff\xfe", b'{"stream":"pumps","id":"x","features":[NaN]}', b"[" * 10_000, b'{"id":1}')


def _records(first: int, count: int) -> list[Sent]:
    """Return examples and labels as a producer without any schema writes them."""
    now, sent = int(time.time() * 1000), []
    for number in range(first, first + count):
        example = {"id": f"é{number}", "stream": "pumps", "features": [number % 7, 0.1 * number]}
        label = {"stream": "pumps", "label": number % 7 == 0, "id": f"é{number}"}
        sent.append(Sent(Side.EXAMPLES, 0, now + number, b"pumps", json.dumps(example).encode()))
        sent.append(Sent(Side.LABELS, 0, now + number, b"pumps", json.dumps(label).encode()))
    return sent


def test_from_a_plain_producer_to_a_plain_reader(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """A kill loses and changes nothing; hostile values become dead letters, and the worker does not end for them."""
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, prefix, tmp_path, SECTIONS)
    app.create_topics()

    def predicted(count: int) -> bool:
        return len(app.outputs(0)["predictions"]) == count

    with workers(app, "w") as (worker,):
        worker.start()
        app.send(_records(0, COUNT // 2))
        wait_until(lambda: predicted(COUNT // 2), "the first predictions", DEADLINE_S)
        app.send([Sent(side, 0, int(time.time() * 1000), b"pumps", value) for value in HOSTILE for side in Side])
        app.send(_records(COUNT // 2, COUNT // 2))
        worker.kill()
        worker.start()
        wait_until(lambda: predicted(COUNT), "all predictions", DEADLINE_S)
        sent = CliRunner().invoke(cli.main, ["run", f"sine:length={REPLAYED}", "-c", str(app.file("w"))])
        assert sent.exit_code == 0, sent.stderr
        wait_until(lambda: predicted(COUNT + REPLAYED), "the replayed stream", DEADLINE_S)
        assert worker.stop() == 0
    outputs = app.outputs(0)
    assert len(outputs["dead-letters"]) == 2 * len(HOSTILE)
    types = {"predictions": Prediction, "outcomes": Outcome, "metrics": Metric}
    for topic, kind in types.items():
        assert outputs[topic]
        for row in outputs[topic]:
            assert json.loads(row.value or b"")["stream"] in {"pumps", "sine"}
            assert isinstance(decode(row.value or b""), kind)
    file = app.file("w")
    verified = areba(file, "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    newest = areba(file, "tail", "outcomes", "--id", "é3")
    assert json.loads(newest.stdout.splitlines()[0])["value"]["outcome"] == "joined", newest.stderr
    explained = areba(file, "explain", "pumps", "é3")
    assert "score" in explained.stdout, explained.stderr
    listed = areba(file, "dlq", "show")
    assert "undecodable" in listed.stdout


def test_the_program_of_the_page_sends_an_example(own_kafka: LocalKafka, tmp_path: Path) -> None:
    """Users copy it."""
    (program,) = blocks((ROOT / "docs" / "values.md").read_text(encoding="utf-8"), "python")
    app = App(own_kafka.bootstrap_servers, "", tmp_path, SECTIONS)
    app.create_topics()
    environment = {**os.environ, "AREBA__KAFKA__BOOTSTRAP_SERVERS": app.servers}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)
    (sent,) = read_topic(app.cluster, TopicPartition("examples", 0))
    assert (sent.key, decode(sent.value or b"")) == (b"pumps", Example("pumps", "pump-1", (49.5, 0.25, 1.0)))
