"""The schema registry, through confluent-kafka's own client: its mock, and its serializers."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_app import schemas
from stream_app.backends.clock import ManualClock
from stream_app.backends.kafka.registry.client import ANSWER_S, RETRY_S, SchemaRegistry, open_registry, topics_of
from stream_app.cli.checks import wait_for_schemas
from stream_app.cli.schemas import load_with_schemas, with_schemas
from stream_app.client import ConfluentDecoder, WrongSchemaError
from stream_app.config import Config, effective, load
from stream_app.errors import ConfigurationError
from stream_app.records import Example, Label, Mark, Prediction, Side
from stream_app.serialization import codec
from stream_app.serialization.avro import newest
from stream_app.serialization.decode import DecodeLimits, decode
from stream_app.serialization.public_types import PUBLIC_TYPES
from stream_app.serialization.registered_schemas import Registered
from stream_app.serialization.wire_format import confluent, confluent_json, format_of, name_of
from tests.support.documents import ROOT, blocks
from tests.support.formats.schema_registry import Registry, serving
from tests.support.formats.writers import CHARGEBACK, PAYMENT, record
from tests.support.kafka.waiting import wait_until

registry = pytest.importorskip("confluent_kafka.schema_registry")
avro = pytest.importorskip("confluent_kafka.schema_registry.avro")
serialization = pytest.importorskip("confluent_kafka.serialization")

TOPICS = Config.model_validate({"kafka": {"topic_prefix": "p."}}).topics
EXAMPLE = {"stream": "pumps", "id": "1", "features": [0.5, 2.0]}
NOBODY = "http://127.0.0.1:9"
"""The port `discard`, where nothing listens."""


def _client() -> Any:  # noqa: ANN401  (the client has no types)
    return registry.SchemaRegistryClient.new_client({"url": "mock://"})


def _registered(client: Any) -> dict[str, tuple[int, ...]]:  # noqa: ANN401
    registry = SchemaRegistry(client, ManualClock())
    return dict(registry.schema_ids(topics_of(TOPICS), newest(), registers=True))


@pytest.fixture
def server() -> Iterator[tuple[Registry, str]]:
    """Serve a registry over HTTP, and return it with its URL."""
    served = Registry()
    with serving(served) as url:
        yield served, url


def _text(name: str) -> str:
    return schemas.sources()[name, 1].strip()


def test_our_schemas_are_registered_by_topic() -> None:
    """Consumers with Confluent's deserializer find the subject `<topic>-value`, the default of all its clients."""
    client = _client()
    found = _registered(client)
    subjects = {f"p.{name}-value" for name in ("examples", "labels", "predictions", "outcomes", "metrics")}
    assert set(client.get_subjects()) == {*subjects, "areba.Mark"}
    assert {name.partition(".")[0] for name in found} == {
        "example",
        "label",
        "mark",
        "prediction",
        "outcome",
        "metric",
    }
    assert _registered(client) == found, "a second worker finds what the first has registered"


def test_a_tool_registers_nothing() -> None:
    """`areba tail` on an empty registry must not make it look used."""
    client = _client()
    assert SchemaRegistry(client, ManualClock()).schema_ids(topics_of(TOPICS), newest()) == {}
    assert client.get_subjects() == []


def test_bytes_of_confluents_serializer() -> None:
    """The worker reads what Confluent's own serializer writes, and Confluent's own deserializer reads our outputs."""
    client = _client()
    schema_ids = _registered(client)
    wire_format = confluent(schema_ids)
    context = serialization.SerializationContext(TOPICS.examples, serialization.MessageField.VALUE)
    serializer = avro.AvroSerializer(client, _text("example"))
    value = serializer(EXAMPLE, context)
    example = Example("pumps", "1", (0.5, 2.0))
    assert value == codec.encode(example, wire_format)
    decoded = decode([value], Side.EXAMPLES, DecodeLimits(wire_format=wire_format))
    assert decoded.reasons.tolist() == [0]
    assert decoded.features.tolist() == [0.5, 2.0]
    prediction = Prediction("pumps", "1", "areba", True, 0.5, 0.125, 1, 7, 1_767_225_600_000)
    published = codec.encode(prediction, wire_format)
    context = serialization.SerializationContext(TOPICS.predictions, serialization.MessageField.VALUE)
    fields = avro.AvroDeserializer(client)(published, context)
    assert (fields["stream"], fields["score"], fields["model_version"]) == ("pumps", 0.5, 7)
    decoder = ConfluentDecoder(lambda schema_id: client.get_schema(schema_id).schema_str)
    assert decoder.decode(published) == prediction
    assert decoder.decode(value) == example
    with pytest.raises(WrongSchemaError, match="looks like Avro single-object encoding"):
        decoder.decode(codec.encode(prediction))


def test_bytes_of_confluents_json_serializer() -> None:
    """Confluent's JSON serializer writes what the worker reads, and its deserializer reads what we write."""
    pytest.importorskip("msgspec", reason="areba[json] is not installed")
    json_schema = pytest.importorskip("confluent_kafka.schema_registry.json_schema")
    client = _client()
    serializer = json_schema.JSONSerializer(schemas.json_sources()["example", 1], client)
    context = serialization.SerializationContext("examples", serialization.MessageField.VALUE)
    value = serializer({"stream": "pumps", "id": "1", "features": [0.5]}, context)
    own = SchemaRegistry(client, ManualClock(), is_json=True)
    wire_format = confluent_json(own.schema_ids(topics_of(Config().topics), newest(), registers=True))
    assert codec.decode_one(value, wire_format) == Example("pumps", "1", (0.5,))
    assert decode([value], Side.EXAMPLES, DecodeLimits(wire_format=wire_format)).reasons.tolist() == [0]
    assert set(wire_format.written) == set(PUBLIC_TYPES)
    label = codec.encode(Label("pumps", "1", 1), wire_format)
    deserializer = json_schema.JSONDeserializer(schemas.json_sources()["label", 1], schema_registry_client=client)
    context = serialization.SerializationContext("labels", serialization.MessageField.VALUE)
    assert deserializer(label, context) == {"stream": "pumps", "id": "1", "label": 1}
    avro_ids = SchemaRegistry(client, ManualClock()).schema_ids(topics_of(Config().topics), newest())
    assert avro_ids == {}, "JSON Schemas are no schemas in Avro"


def test_bytes_of_confluents_serializer_with_another_schema() -> None:
    """A producer with a schema of its own: the registry knows it, and the worker reads what the serializer writes."""
    client = _client()
    serializer = avro.AvroSerializer(client, json.dumps(PAYMENT))
    context = serialization.SerializationContext("elsewhere", serialization.MessageField.VALUE)
    content = {**EXAMPLE, "features": [0.1, 2.0], "booked": 1_700_000_000_000, "shop": {"city": "Köln"}}
    value = serializer(content, context)
    schema_id = int.from_bytes(value[1:5], "big")
    own = SchemaRegistry(client, ManualClock(), _at_once)
    [found] = (own.registered([schema_id]) or {}).values()
    wire_format = confluent(_registered(client), {str(schema_id): found.text})
    decoded = decode([value], Side.EXAMPLES, DecodeLimits(wire_format=wire_format))
    assert decoded.reasons.tolist() == [0]
    assert decoded.features.tolist() == np.array([0.1, 2.0], np.float32).tolist()


def test_schemas_of_other_writers_among_the_versions() -> None:
    """A tool shows the values of the schemas that are registered for the inputs; those of outputs do not count."""
    client = _client()
    schema_ids = [
        client.register_schema(f"{topic}-value", registry.Schema(json.dumps(schema), "AVRO"))
        for topic, schema in ((TOPICS.examples, PAYMENT), (TOPICS.labels, CHARGEBACK), (TOPICS.outcomes, CHARGEBACK))
    ]
    client.register_schema(f"{TOPICS.examples}-value", registry.Schema(json.dumps({"type": "object"}), "JSON"))
    own = SchemaRegistry(client, ManualClock())
    assert own.schema_ids(topics_of(TOPICS), newest()) == {}
    assert own.writer_schemas.keys() == set(map(str, schema_ids[:2]))
    config = Config().with_schema_ids({"example.v1": [1]}, own.writer_schemas)
    assert config.task_settings().writer_schemas == own.writer_schemas


def test_schemas_that_cannot_be_used(caplog: pytest.LogCaptureFixture) -> None:
    """The log says once why an id is refused; a schema that refers to others, or is too large, counts as none."""
    client = _client()
    wrong = record(("stream", "string"), ("id", "string"), ("label", "double"))
    large = record(*[(f"field{number}", "string") for number in range(5_000)])
    reference = registry.SchemaReference("com.bank.Payment", "elsewhere", 1)
    client.register_schema("elsewhere", registry.Schema(json.dumps(PAYMENT), "AVRO"))
    ids = [
        client.register_schema("other", registry.Schema(json.dumps(wrong), "AVRO")),
        client.register_schema("other", registry.Schema(json.dumps(large), "AVRO")),
        client.register_schema("other", registry.Schema(json.dumps(CHARGEBACK), "AVRO", [reference])),
        client.register_schema("other", registry.Schema(json.dumps(CHARGEBACK), "AVRO")),
    ]
    own = SchemaRegistry(client, ManualClock(), _at_once)
    with caplog.at_level(logging.INFO, "areba"):
        found = own.registered(ids) or {}
    assert [bool(found[one].text) for one in ids] == [True, False, False, True]
    assert [vars(line)["event"] for line in caplog.records] == [*["schema-refused"] * 3, "schema-accepted"]
    assert 'field "label" has the type double' in caplog.text
    assert '"com.bank.Chargeback" as label' in caplog.text


def test_versions_with_other_comments_are_ours() -> None:
    """A producer whose schema has other comments has another schema id; its examples are read at once."""
    client = _client()
    other = _text("example").replace("One event; its class", "An order; its class")
    schema_id = client.register_schema(f"{TOPICS.examples}-value", registry.Schema(other, "AVRO"))
    found = _registered(client)
    assert set(found["example.v1"]) > {schema_id}
    assert found["example.v1"][0] != schema_id, "we write the id of our own text"


class _Asked:
    """A client that records requests and can be made to fail."""

    def __init__(self, client: Any) -> None:  # noqa: ANN401
        self.client = client
        self.asked: list[int] = []
        self.error: Exception | None = None

    def get_schema(self, schema_id: int) -> Any:  # noqa: ANN401
        self.asked.append(schema_id)
        if self.error is not None:
            raise self.error
        return self.client.get_schema(schema_id)


def _at_once(work: Callable[[], None]) -> None:
    """Do what a registry would do in another thread."""
    work()


def test_new_schema_ids() -> None:
    """Ids of our schemas are named; unknown and foreign ids are refused, and asked for again after a while."""
    client, clock = _client(), ManualClock()
    ours = client.register_schema("elsewhere", registry.Schema(_text("example"), "AVRO"))
    foreign = client.register_schema("elsewhere", registry.Schema('{"type": "string"}', "AVRO"))
    later = foreign + 1
    asked = _Asked(client)
    names = SchemaRegistry(asked, clock, _at_once)
    assert names.registered([ours, foreign, later]) == {ours: Registered("example.v1"), foreign: Registered("")}
    assert names.registered([foreign, later]) == {foreign: Registered("")}
    assert asked.asked == [ours, foreign, later]
    assert client.register_schema("elsewhere", registry.Schema(_text("label"), "AVRO")) == later
    assert names.registered([later]) == {}
    clock.advance(ANSWER_S)
    assert names.registered([later]) == {later: Registered("label.v1")}


@pytest.mark.parametrize("error", [registry.SchemaRegistryError(503, 50301, "starting"), OSError("refused")])
def test_a_registry_that_is_away(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """It is asked every few seconds only, each time with a line in the log, and nothing is decided in the meantime."""
    client, clock = _client(), ManualClock()
    ours = client.register_schema("elsewhere", registry.Schema(_text("example"), "AVRO"))
    asked = _Asked(client)
    names = SchemaRegistry(asked, clock, _at_once)
    asked.error = error
    with caplog.at_level(logging.INFO, "areba"):
        assert [names.registered([ours]) for _ in range(3)] == [None] * 3
        assert asked.asked == [ours]
        clock.advance(RETRY_S)
        asked.error = None
        assert names.registered([ours]) == {ours: Registered("example.v1")}
    assert [vars(line)["event"] for line in caplog.records] == ["registry-awaited", "schema-accepted"]


def _file(folder: Path, *lines: str) -> Path:
    path = folder / "areba.yaml"
    path.write_text("\n".join(["serialization:", "  wire_format: confluent", *lines, ""]), encoding="utf-8")
    return path


def test_nobody_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A start names the setting; a tool shows what it can."""
    path = _file(tmp_path, "  schema_registry:", f"    url: {NOBODY}")
    config = load_with_schemas(path)
    assert config.serialization.schema_ids == {}
    assert "serialization.schema_registry.url" in capsys.readouterr().err
    with pytest.raises(ConfigurationError, match=r"serialization\.schema_registry\.url: subject examples-value"):
        with_schemas(config, registers=True)


def test_a_worker_over_http(server: tuple[Registry, str], tmp_path: Path) -> None:
    """The real client's requests: a start registers, a second one only reads, and new ids are looked up once."""
    served, url = server
    served.user_info = "areba:secret"
    path = _file(tmp_path, "  schema_registry:", f"    url: {url}", "    basic.auth.user.info: areba:secret")
    config, names = with_schemas(load(path, {}), registers=True)
    assert set(config.serialization.schema_ids) == {name_of(newest()[record]) for record in PUBLIC_TYPES}
    assert served.subjects.keys() >= {"examples-value", "predictions-value", "areba.Mark"}
    wire_format = format_of(config.serialization)
    assert {record: bool(wire_format.header(record)) for record in PUBLIC_TYPES} == dict.fromkeys(PUBLIC_TYPES, True)
    before = [request for request in served.requests if request.endswith("/versions") and request.startswith("POST")]
    assert with_schemas(load(path, {}), registers=True)[0] == config
    after = [request for request in served.requests if request.endswith("/versions") and request.startswith("POST")]
    assert len(before) == len(PUBLIC_TYPES)
    assert after == before
    new = served.register("elsewhere", _text("example").replace("One event; its class", "An order; its class"))
    assert names.registered([new, new + 1]) is None, "the answer comes later: nothing waits for it"
    wait_until(lambda: names.registered([new, new + 1]) == {new: Registered("example.v1")}, "the answer")
    assert "secret" not in f"{config!r} {effective(path, {})}"


@pytest.mark.slow(2)
@pytest.mark.parametrize("problem", ["is_starting", "user_info"])
def test_a_registry_that_refuses(server: tuple[Registry, str], tmp_path: Path, problem: str) -> None:
    """A start waits for it and then names the setting, not a traceback of an HTTP library."""
    served, url = server
    setattr(served, problem, "another:secret" if problem == "user_info" else True)
    lines = ("  schema_registry:", f"    url: {url}", "    basic.auth.user.info: areba:secret")
    path = _file(tmp_path, *lines, "worker: {start_timeout_ms: 1000}")
    with pytest.raises(
        ConfigurationError, match=r"serialization\.schema_registry\.url: subject examples-value"
    ) as raised:
        wait_for_schemas(load(path, {}), lambda: False, restarted=False)
    assert "secret" not in str(raised.value)
    assert wait_for_schemas(load(path, {}), lambda: True, restarted=True) is None, "it was asked to stop"


def test_the_snippet_of_the_docs(server: tuple[Registry, str]) -> None:
    """Subscribers copy it."""
    served, url = server
    schema_id = served.register("predictions-value", _text("prediction"))
    *_, snippet = blocks((ROOT / "docs" / "subscribers.md").read_text(encoding="utf-8"), "python")
    names: dict[str, Any] = {}
    exec(snippet.replace("http://127.0.0.1:8081", url), names)  # noqa: S102  (the docs' own text)
    prediction = Prediction("pumps", "1", "areba", True, 0.5, 0.125, 1, 7, 1_767_225_600_000)
    assert names["decode"](codec.encode(prediction, confluent({"prediction.v1": (schema_id,)}))) == prediction


@pytest.mark.parametrize("settings", [{"url": "ftp://x"}, {"url": NOBODY, "no.such.setting": "1"}])
def test_wrong_settings_of_the_client(settings: dict[str, str]) -> None:
    """The client's own complaint is one line with the section."""
    with pytest.raises(ConfigurationError, match=r"serialization\.schema_registry: "):
        open_registry(settings)


def test_marks_have_a_subject_of_their_own() -> None:
    """A mark in the subject of examples would be an incompatible version there, which a registry refuses."""
    client = _client()
    schema_ids = _registered(client)
    mark = client.get_latest_version("areba.Mark")
    assert schema_ids["mark.v1"] == (mark.schema_id,)
    versions = client.get_versions(f"{TOPICS.examples}-value")
    assert len(versions) == 1
    assert confluent(schema_ids).header(Mark)
