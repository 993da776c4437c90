"""What subscribers import: it decodes what workers write, and needs nothing that only workers need."""

import subprocess
import sys
from pathlib import Path

import pytest

from stream_app import client
from stream_app.errors import UndecodableError, WrongSchemaError
from stream_app.serialization import codec
from tests.support.documents import ROOT, blocks

GOLDEN = sorted((ROOT / "schemas" / "golden").glob("*.bin"))
INTERNAL = {"act", "commit"}

PAGE = (ROOT / "docs" / "subscribers.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("file", GOLDEN, ids=lambda path: str(path.stem))
def test_the_client_decodes_every_published_version(file: Path) -> None:
    """A subscriber must see the same record as the application's own tools, in every published version."""
    value = file.read_bytes()
    if file.stem.partition(".")[0] in INTERNAL:
        with pytest.raises(WrongSchemaError):
            client.decode(value)
        return
    assert client.decode(value) == codec.decode_one(value)
    with pytest.raises(UndecodableError):
        client.decode(value + b"\0")
    with pytest.raises(UndecodableError):
        client.decode(value[:-1])


@pytest.mark.parametrize("value", [b"", b"\xc3\x01", b'["stream"]', b"\0" * 40])
def test_other_values_are_refused(value: bytes) -> None:
    """Garbage must not become a record."""
    with pytest.raises(WrongSchemaError):
        client.decode(value)


def test_json_that_is_no_record_is_refused() -> None:
    """The error names the field."""
    with pytest.raises(UndecodableError, match="id"):
        client.decode(b'{"stream": "s"}')


def test_the_client_imports_neither_torch_nor_numba() -> None:
    """A subscriber's service has no room for some GB of Torch, and no minute for compiling."""
    code = "import sys, stream_app.client; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {"torch", "numba", "confluent_kafka", "pydantic"}.isdisjoint(done.stdout.split())


@pytest.mark.parametrize(("language", "most"), [("python", 19), ("java", 42), ("js", 26)])
def test_the_programs_for_subscribers_are_short(language: str, most: int) -> None:
    """To subscribe is easy; a longer program would say that it is not."""
    found = [block for block in blocks(PAGE, language) if "subscribe(" in block]
    assert found
    assert all(len(block.splitlines()) <= most for block in found)
    assert all("read_committed" in block for block in found), "any other reader sees aborted predictions"
