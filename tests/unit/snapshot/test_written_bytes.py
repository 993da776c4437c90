"""What a snapshot of a busy stream writes: its core, and the blocks of the learner's queues that have changed."""

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


def written_bytes(method: str, features: int) -> list[int]:
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
def test_a_stream_writes_as_much_as_documented(place: int) -> None:
    """The changelog grows with it, and so does a restore: an operator of a thousand streams must know the size."""
    page = " ".join((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split())
    pattern = (
        r"has (\d+) kB with (\d+) features and (\d+) kB with (\d+), of which \d+ and \d+ labels of the classes "
        r"change (\d+) and (\d+) kB \(AREBA_20: at most (\d+) kB and (\d+) kB"
    )
    (found,) = re.findall(pattern, page)
    whole_2, features_2, whole_30, features_30, changed_2, changed_30, *areba = map(int, found)
    features = (features_2, features_30)[place]
    full, later = written_bytes("relay", features)
    assert full == pytest.approx(1_000 * (whole_2, whole_30)[place], rel=0.05)
    assert later == pytest.approx(1_000 * (changed_2, changed_30)[place], rel=0.05)
    assert max(written_bytes("areba", features)) <= 1_000 * areba[place]
