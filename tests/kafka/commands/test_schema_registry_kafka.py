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
from tests.support.kafka.application import App, Section
from tests.support.kafka.processes import areba, workers
from tests.support.kafka.waiting import DEADLINE_S, wait_until
from tests.support.rows import Sent

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
