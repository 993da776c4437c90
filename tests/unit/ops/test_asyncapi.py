"""asyncapi.yaml is what the schemas and the glossary say: a stale file would generate wrong clients."""

import yaml

from ops.asyncapi import CHANNELS, FILE, document, glossary, newest_schemas, text
from stream_app.client.decoder import PUBLIC_TYPES
from stream_app.config import Config

DOCUMENT = yaml.safe_load(FILE.read_text(encoding="utf-8"))


def test_the_file_is_what_the_sources_say() -> None:
    """If it fails, run `python -m ops.asyncapi` and commit the file."""
    assert FILE.read_text(encoding="utf-8") == text()
    assert document() == DOCUMENT


def test_every_public_topic_and_record_is_described() -> None:
    """A topic that is missing here cannot be subscribed to with generated code."""
    topics = Config().topics
    internal = {topics.changelog, topics.progress}
    assert {channel["address"] for channel in DOCUMENT["channels"].values()} == {*topics} - internal
    messages = DOCUMENT["components"]["messages"]
    public = {record.__name__ for record in PUBLIC_TYPES.values()}
    assert set(messages) == public | {"DeadLetter"}
    assert {name: messages[name]["payload"]["schema"] for name in public} == {
        name: schema for name, schema in newest_schemas().items() if name in public
    }
    assert all(message["description"] for message in messages.values())
    for name in public:
        golden = FILE.parent / "schemas" / "golden" / f"{name.lower()}.v1.bin"
        assert golden.read_bytes().hex().startswith(messages[name]["x-begins-with"]), "how a reader tells records apart"
    assert {operation["action"] for operation in DOCUMENT["operations"].values()} == {"send", "receive"}


def test_the_fields_that_tell_records_apart_exist() -> None:
    """A reader that removes repeats by a field that is absent would keep one record of all."""
    for channel in DOCUMENT["channels"].values():
        (message, *_) = (DOCUMENT["components"]["messages"][name] for name in channel["messages"])
        names = message.get("payload", {}).get("schema", {}).get("fields", [])
        known = {field["name"] for field in names} | set(message["headers"]["properties"])
        assert set(channel["x-identity"]) <= known


def test_the_descriptions_are_those_of_the_glossary() -> None:
    """One name for one thing, and one meaning: the glossary has it."""
    meanings = glossary()
    assert len(meanings) > 40
    for name, channel in CHANNELS.items():
        if channel.word in meanings:
            assert DOCUMENT["channels"][name]["description"] == meanings[channel.word]
    assert [name for name, channel in CHANNELS.items() if channel.word not in meanings] == ["metrics"]
