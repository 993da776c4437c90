"""What a snapshot of a busy stream writes: its core, whole, with the learner's queues."""

import re
from collections.abc import Iterable

import numpy as np
import pytest

from stream_app.config import Config
from stream_app.pipeline.task import Task
from stream_app.record_columns import RawRecords
from stream_app.records import Example, Label
from stream_app.serialization import codec
from tests.support.documents import ROOT
from tests.support.snapshots import Changelog

FULL, MORE = 1_500, 50
"""Records that fill both of RELAY's queues, and records between two snapshots."""


def columns(values: Iterable[bytes], first: int, lag_ms: int) -> RawRecords:
    """Return records a second apart from this offset on."""
    held: list[bytes | None] = list(values)
    offsets = np.arange(first, first + len(held), dtype=np.int64)
    return RawRecords.of(offsets, 1_000 * offsets + lag_ms, [b"s"] * len(held), held)


def core_bytes(method: str, features: int) -> list[int]:
    """Return the bytes of two snapshots of one stream: of full queues, and after some more records."""
    data = {
        "application": {"id": "app", "instance": "w"},
        "streams": {"s": {"features": features}},
        "learners": {"one": {"method": method}},
        "join": {"max_closed_per_stream": 0},
    }
    settings = Config.model_validate(data, context={}).task_settings()
    task, changelog, written = Task(0, settings, ("examples", "labels")), Changelog(settings), []
    examples = np.random.default_rng(1).standard_normal((FULL + MORE, features)).astype(np.float32)
    for first, end in ((0, FULL), (FULL, FULL + MORE)):
        numbers = range(first, end)
        task.step(
            columns((codec.encode(Example("s", str(n), examples[n].tolist())) for n in numbers), first, 0),
            columns((codec.encode(Label("s", str(n), int(n % 2))) for n in numbers), first, 1),
        )
        changelog.write(task)
        written.append(sum(len(blob.content) for blob in changelog.written))
    return written


@pytest.mark.parametrize("place", [0, 1])
def test_a_core_is_as_large_as_documented(place: int) -> None:
    """The changelog, and the time of a restore, grow with it: an operator of a thousand streams must know its size."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    (found,) = re.findall(
        r"make it (\d+) kB with (\d+) features and (\d+) kB with (\d+) \(AREBA_20: at most (\d+) kB and (\d+) kB", page
    )
    relay_2, features_2, relay_30, features_30, areba_2, areba_30 = map(int, found)
    features = (features_2, features_30)[place]
    full, later = core_bytes("relay", features)
    assert full == later, "a stream has no end"
    assert later == pytest.approx(1_000 * (relay_2, relay_30)[place], rel=0.1)
    assert max(core_bytes("areba", features)) <= 1_000 * (areba_2, areba_30)[place]
