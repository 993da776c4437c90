"""Confluent's wire format from end to end: the replayer, a worker that is killed, `areba verify` and `areba tail`."""

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from ops.broker import Broker
from stream_app import schemas
from stream_app.client import ConfluentDecoder, Prediction
from stream_app.producers import cli
from stream_app.records import Example, Side
from stream_app.serialization import codec
from stream_app.serialization.avro import HEADER_BYTES
from tests.support.formats.schema_registry import Registry, serving
from tests.support.formats.writers import CHARGEBACK, PAYMENT, record, written
from tests.support.kafka.application import App, Section
from tests.support.kafka.processes import areba, workers
from tests.support.kafka.waiting import DEADLINE_S, wait_until
from tests.support.rows import Sent

schema_registry = pytest.importorskip("confluent_kafka.schema_registry")
avro = pytest.importorskip("confluent_kafka.schema_registry.avro")
serialization = pytest.importorskip("confluent_kafka.serialization")

pytestmark = [pytest.mark.kafka, pytest.mark.slow(30)]

EXAMPLES = 300
NOBODY = "http://127.0.0.1:9"
"""The port `discard`, where nothing listens."""


def _app(kafka: Broker, prefix: str, folder: Path, url: str, wire_format: str = "confluent") -> App:
    assert kafka.bootstrap_servers is not None
    sections: dict[str, Section] = {
        "streams": {"sine": {"features": 2}},
        "serialization": {"wire_format": wire_format, "schema_registry": {"url": url}},
    }
    app = App(kafka.bootstrap_servers, prefix, folder, sections)
    app.create_topics()
    return app


def test_from_the_replayer_to_a_subscriber(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """A kill and a registry that is down lose nothing, and every byte equals a fresh run's."""
    served = Registry()
    with serving(served) as url:
        app = _app(kafka, prefix, tmp_path, url)
        settings = tmp_path / "registry.properties"
        settings.write_text(f"url={url}\n", encoding="utf-8")
        where = ("--bootstrap-servers", app.servers, "--topic-prefix", prefix, "--registry-config", str(settings))
        sent = CliRunner().invoke(cli.main, ["run", f"sine:length={EXAMPLES}", *where])
        assert sent.exit_code == 0, sent.stderr

        def predicted(count: int) -> bool:
            return len(app.outputs(0)["predictions"]) == count

        with workers(app, "w") as (worker,):
            worker.start()
            wait_until(lambda: predicted(EXAMPLES), "all predictions", DEADLINE_S)
            worker.kill()
            served.is_starting = True
            worker.start()
            worker.wait_for("waiting for the schema registry")
            served.is_starting = False
            worker.wait_for("restored")
            served.is_starting = True
            text = schemas.sources()["example", 1].replace("One event; its class", "An order; its class")
            header = b"\x00" + served.register("elsewhere", text).to_bytes(4, "big")
            body = codec.encode(Example("sine", "new", [0.5, 0.5]))[HEADER_BYTES:]
            app.send([Sent(Side.EXAMPLES, 0, int(time.time() * 1000), b"sine", header + body)])
            worker.wait_for("registry-awaited")
            assert predicted(EXAMPLES)
            served.is_starting = False
            worker.wait_for("schema-accepted")
            wait_until(lambda: predicted(EXAMPLES + 1), "the prediction of the new record", DEADLINE_S)
            assert worker.stop() == 0
        assert app.outputs(0)["dead-letters"] == []
        file = app.file("w")
        verified = areba(file, "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr
        newest = areba(file, "tail", "predictions", "--limit", "1")
        assert json.loads(newest.stdout)["value"]["id"] == "new"
    verified = areba(file, "verify")  # the registry is down
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "serialization.schema_registry.url" in verified.stderr


def _of_a_bank(url: str, first: int, count: int) -> list[Sent]:
    """Return examples and labels as Confluent's serializer writes them with schemas of a bank's own."""
    client = schema_registry.SchemaRegistryClient({"url": url})
    settings = {"subject.name.strategy": schema_registry.record_subject_name_strategy}
    payments = avro.AvroSerializer(client, json.dumps(PAYMENT), conf=settings)
    chargebacks = avro.AvroSerializer(client, json.dumps(CHARGEBACK), conf=settings)
    context = serialization.SerializationContext("topic", serialization.MessageField.VALUE)
    now, sent = int(time.time() * 1000), []
    for number in range(first, first + count):
        names = {"stream": "sine", "id": f"é{number}"}
        payment = {**names, "features": [0.1 * number, number % 7], "booked": now, "shop": {"city": "Köln"}}
        label = {**names, "label": number % 7 == 0}
        sent.append(Sent(Side.EXAMPLES, 0, now + number, b"sine", payments(payment, context)))
        sent.append(Sent(Side.LABELS, 0, now + number, b"sine", chargebacks(label, context)))
    return sent


def test_a_producer_with_its_own_schemas(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """Doubles, nullable ids and boolean labels are learned, also after a kill; a wrong schema is named, not lost."""
    with serving(Registry()) as url:
        app = _app(kafka, prefix, tmp_path, url)

        def ended(count: int) -> bool:
            return len(app.outputs(0)["outcomes"]) == count

        with workers(app, "w") as (worker,):
            worker.start()
            worker.wait_for("started")
            app.send(_of_a_bank(url, 0, EXAMPLES))
            worker.wait_for("schema-accepted")
            wait_until(lambda: ended(EXAMPLES), "the first outcomes", DEADLINE_S)
            worker.kill()
            client = schema_registry.SchemaRegistryClient({"url": url})
            wrong = record(("id", "long"), ("stream", "string"), ("features", {"type": "array", "items": "float"}))
            wrong_id = client.register_schema("elsewhere", schema_registry.Schema(json.dumps(wrong), "AVRO"))
            value = written(wrong, {"id": 7, "stream": "sine", "features": [0.5, 0.5]}, wrong_id)
            app.send([Sent(Side.EXAMPLES, 0, int(time.time() * 1000), b"sine", value)])
            app.send(_of_a_bank(url, EXAMPLES, EXAMPLES))
            worker.start()
            worker.wait_for("schema-refused")
            wait_until(lambda: ended(2 * EXAMPLES), "all outcomes", DEADLINE_S)
            assert worker.stop() == 0
    file = app.file("w")
    [letter] = app.outputs(0)["dead-letters"]
    assert letter.value == value
    said = dict(letter.headers)["__connect.errors.exception.message"] or b""
    assert b'field "id" has the type long, and string or bytes is wanted' in said
    verified = areba(file, "verify")  # the registry is down
    assert verified.returncode == 0, verified.stdout + verified.stderr
    explained = areba(file, "explain", "sine", "é3")
    assert "score" in explained.stdout, explained.stderr


def test_json_with_a_registry(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """The worker registers JSON Schemas, and what the replayer sends by them is learned, also after a kill."""
    pytest.importorskip("msgspec", reason="areba[json] is not installed")
    served = Registry()
    with serving(served) as url:
        app = _app(kafka, prefix, tmp_path, url, "confluent_json")
        with workers(app, "w") as (worker,):
            worker.start()
            worker.wait_for("started")
            sent = CliRunner().invoke(cli.main, ["run", f"sine:length={EXAMPLES}", "-c", str(app.file("w"))])
            assert sent.exit_code == 0, sent.stderr
            worker.kill()
            worker.start()
            wait_until(lambda: len(app.outputs(0)["predictions"]) == EXAMPLES, "all predictions", DEADLINE_S)
            assert worker.stop() == 0
        assert set(served.types.values()) == {"JSON"}
        decoder = ConfluentDecoder(lambda schema_id: served.texts[schema_id - 1])
        assert {type(decoder.decode(row.value or b"")) for row in app.outputs(0)["predictions"]} == {Prediction}
        assert app.outputs(0)["dead-letters"] == []
        verified = areba(app.file("w"), "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_start_without_a_registry_names_the_setting(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """Exit status 2 with one line, and nothing is written."""
    app = _app(kafka, prefix, tmp_path, NOBODY)
    with workers(app, "w", worker={"start_timeout_ms": 1_000}) as (worker,):
        worker.start()
        assert worker.wait() == 2
        assert "serialization.schema_registry.url" in worker.log().splitlines()[-1]
    checked = areba(app.file("w"), "topics", "check", "--json")
    assert checked.returncode == 1
    found = {one["check"]: one["level"] for one in map(json.loads, checked.stdout.splitlines())}
    assert {check for check, level in found.items() if level == "wrong"} == {"schema registry"}
