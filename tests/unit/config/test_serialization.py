"""The settings of the wire format and of the schema registry: secrets, contradictions, and what may change."""

from pathlib import Path

import pytest

from stream_app.config import Config, TaskSettings, changes, effective, load
from stream_app.errors import ConfigurationError
from tests.unit.config.support import faults

VARIABLE = "AREBA__SERIALIZATION__SCHEMA_REGISTRY__BASIC_AUTH_USER_INFO"
CONFLUENT = {"AREBA__SERIALIZATION__WIRE_FORMAT": "confluent"}
URL = {**CONFLUENT, "AREBA__SERIALIZATION__SCHEMA_REGISTRY__URL": "http://127.0.0.1:8081"}


def _settings(**serialization: object) -> TaskSettings:
    return Config.model_validate({"serialization": serialization}).task_settings()


def test_the_password_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    """It is in no file of settings, and no page or log shows it."""
    secret = tmp_path / "secret"
    secret.write_text("areba:hunter2\n", encoding="utf-8")
    for given in ({VARIABLE: "areba:hunter2"}, {f"{VARIABLE}_FILE": str(secret)}):
        environment = {**URL, **given}
        config = load(None, environment)
        assert config.serialization.schema_registry["basic.auth.user.info"] == "areba:hunter2"
        assert "hunter2" not in f"{config!r} {effective(None, environment)}"


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("wire_format: confluent", "serialization.schema_registry"),
        ("schema_registry: {url: 'http://h'}", "serialization.schema_registry"),
        ("schema_ids: {example.v1: [1]}", "serialization.schema_ids"),
        ("wire_format: confluent, schema_registry: {url: 'http://u:p@h'}", "serialization.schema_registry"),
        ("wire_format: confluent, schema_registry: {url: 'http://h', max.retries: 9}", "serialization.schema_registry"),
        ("wire_format: confluent, schema_ids: {example.v1: [-1]}", "serialization.schema_ids.example.v1"),
        ("wire_format: confluent, schema_ids: {example.v1: []}", "serialization.schema_ids.example.v1"),
        ("wire_format: xml", "serialization.wire_format"),
        ("wire_format: confluent_json", "serialization.schema_registry"),
        ("wire_format: json, schema_ids: {example.v1: [1]}", "serialization.schema_ids"),
        ("label_classes: {fraud: 1}", "serialization.label_classes"),
        ("wire_format: json, writer_schemas: {'7': x}", "serialization.writer_schemas"),
        (
            "wire_format: confluent, schema_ids: {example.v1: [1]}, writer_schemas: {'x': x}",
            "serialization.writer_schemas",
        ),
        ("wire_format: confluent, schema_ids: {example.v1: [1]}, writer_schemas: {'4294967296': x}", "writer_schemas"),
        ("wire_format: json, label_classes: {fraud: 2}", "serialization.label_classes.fraud"),
        ("wire_format: json, label_classes: {yes: 1}", "serialization.label_classes"),
    ],
)
def test_contradictory_settings_of_the_registry_are_refused(tmp_path: Path, text: str, setting: str) -> None:
    """A line names the setting, before anything is started."""
    assert any(setting in line for line in faults(tmp_path, f"serialization: {{{text}}}"))


def test_schema_ids_without_a_registry() -> None:
    """A worker that cannot reach the registry can be given the schema ids."""
    ids = {**CONFLUENT, "AREBA__SERIALIZATION__SCHEMA_IDS": "{example.v1: [3, 4]}"}
    assert load(None, ids).task_settings().schema_ids == {"example.v1": (3, 4)}


def test_schema_ids_may_be_added_and_not_changed() -> None:
    """Schema ids may be added; an id with another meaning, or another format, would make records unreadable."""
    single = _settings()
    one = _settings(wire_format="confluent", schema_ids={"example.v1": [3], "label.v1": [4]})
    more = one.with_schema_ids({"example.v1": [9, 7]})
    swapped = _settings(wire_format="confluent", schema_ids={"example.v1": [4], "label.v1": [3]})
    assert changes(one, more, {}).refused == ()
    assert len(changes(one, more, {}).taken_over) == 1
    assert len(changes(one, swapped, {}).refused) == 2
    for pair in ((single, one), (one, single)):
        assert any("wire_format" in line for line in changes(*pair, {}).refused)


def test_schemas_of_other_writers_may_be_added_and_not_changed() -> None:
    """As ids of our own schemas; a line names the id, not the whole schema."""
    one = _settings(wire_format="confluent", schema_ids={"example.v1": [3]}, writer_schemas={"10": "a"})
    more = one.with_schema_ids({}, {"9": "b", "10": "never"})
    assert list(more.writer_schemas.items()) == [("9", "b"), ("10", "a")]
    found = changes(one, more, {})
    assert (found.taken_over, found.refused) == (("serialization.writer_schemas: 9 is new",), ())
    assert TaskSettings.from_json(more.to_json()) == more
    for other in (
        _settings(wire_format="confluent", schema_ids={"example.v1": [3]}, writer_schemas={"10": "b"}),
        _settings(wire_format="confluent", schema_ids={"example.v1": [3, 10]}, writer_schemas={}),
        _settings(wire_format="confluent", schema_ids={"example.v1": [4]}, writer_schemas={"3": "a"}),
    ):
        assert any("another schema registry" in line for line in changes(one, other, {}).refused)


def test_texts_of_labels_may_change() -> None:
    """A sender has a new word for a class; the earlier labels keep their meaning."""
    one = _settings(wire_format="json", label_classes={"fraud": 1})
    two = _settings(wire_format="json", label_classes={"fraud": 1, "genuine": 0})
    found = changes(one, two, {})
    assert (len(found.taken_over), found.refused) == (1, ())


def test_accepted_numbers_are_kept_in_one_order() -> None:
    """Two workers that found ids in another order would otherwise record a change each time that a task moves."""
    one = _settings(wire_format="confluent", schema_ids={"example.v1": [5, 9]})
    two = _settings(wire_format="confluent", schema_ids={"example.v1": [5, 7]})
    merged = one.with_schema_ids(two.schema_ids)
    assert merged.schema_ids == {"example.v1": (5, 7, 9)}
    assert two.with_schema_ids(one.schema_ids) == merged
    assert merged.with_schema_ids(one.schema_ids) is merged
    assert TaskSettings.from_json(merged.to_json()) == merged


def test_an_error_is_one_line_for_each_setting() -> None:
    """A user should not have to start a worker five times to find five mistakes."""
    with pytest.raises(ConfigurationError) as raised:
        load(None, {**CONFLUENT, "AREBA__JOIN__TTL_MS": "0"})
    assert {line.partition(":")[0] for line in raised.value.lines} >= {"AREBA__JOIN__TTL_MS"}
    assert len(raised.value.lines) == 2
