"""All models of an application move to another one with another number of partitions, on a real Kafka."""

import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from ops.broker import Broker
from stream_app.backends.partitioner import partition_of
from stream_app.records import Prediction
from stream_app.serialization import codec
from tests.support.kafka.application import App, Section
from tests.support.kafka.processes import areba, workers
from tests.support.kafka.progress import Progress
from tests.support.kafka.records import example, label

pytestmark = [pytest.mark.kafka, pytest.mark.slow(60)]

STREAMS = ("pumps", "fraud", "größe/ä", "a.b", "cards")

SECTIONS: Mapping[str, Section] = {
    "streams": {name: {"features": 2} for name in STREAMS},
    "learners": {"areba": {"method": "areba", "scaler": "standard"}, "two": {"method": "baseline"}},
    "predictions": "all",
}

COUNT = 60
"""Labelled examples of each stream before the backup."""

LATER = 10
"""Examples that both applications predict after it."""


def _send(app: App, first: int, count: int, start_ms: int, *, labelled: bool) -> dict[int, int]:
    """Send examples of each stream, and their labels, to the partition of the stream; return how many each got."""
    sent: dict[int, int] = dict.fromkeys(range(app.partitions), 0)
    records = []
    for number in range(first, first + count):
        for name in STREAMS:
            place, now_ms = partition_of(name.encode(), app.partitions), start_ms + 10 * number
            records.append(example(name, str(number), [number % 7, number % 3], now_ms, place))
            if labelled:
                records.append(label(name, str(number), int(number % 7 == 6), now_ms + 1, place))
            sent[place] += 1
    app.send(records)
    return sent


def _digests(file: Path) -> dict[tuple[str, str], str]:
    """Return the digest of each learner, as `areba state list` prints them."""
    listed = areba(file, "state", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    found = [json.loads(line) for line in listed.stdout.splitlines()]
    return {(one["stream"], one["learner"]): one["digest"] for one in found}


def _predicted(app: App) -> dict[tuple[str, str, str], tuple[float, int]]:
    """Return score and model version of the later examples, by stream, learner and id."""
    contents = [
        codec.decode_one(read.value or b"")
        for number in range(app.partitions)
        for read in app.outputs(number)["predictions"]
    ]
    return {
        (one.stream, one.learner, one.id): (one.score, one.model_version)
        for one in contents
        if isinstance(one, Prediction) and int(one.id) >= COUNT
    }


def test_all_models_move_to_another_number_of_partitions(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """The only way to more partitions: each learner must continue bit for bit, in the task of its stream."""
    assert kafka.bootstrap_servers is not None
    old, new = (
        App(kafka.bootstrap_servers, f"{prefix}{name}-", tmp_path, SECTIONS, partitions)
        for name, partitions in (("old", 3), ("new", 2))
    )
    start_ms, folder = int(time.time() * 1000) - 3_600_000, str(tmp_path / "backup")
    for app in (old, new):
        app.create_topics()
    with workers(old, "w") as (worker,), Progress(old) as progress:
        worker.start()
        before = _send(old, 0, COUNT, start_ms, labelled=True)
        progress.wait_for_ends({place: (count, count) for place, count in before.items() if count})
        exported = areba(old.file("w"), "state", "export", "--all", folder)
        assert exported.returncode == 0, exported.stderr
        digests = _digests(old.file("w"))
        assert set(digests) == {(name, learner) for name in STREAMS for learner in ("areba", "two")}
        assert worker.stop() == 0

    imported = areba(new.file("w"), "state", "import", "--all", folder)
    assert imported.returncode == 0, imported.stderr
    assert _digests(new.file("w")) == digests, "before the first start"

    for app in (old, new):
        done = before if app is old else dict.fromkeys(range(new.partitions), 0)
        with workers(app, "w") as (worker,), Progress(app) as progress:
            worker.start()
            later = _send(app, COUNT, LATER, start_ms, labelled=False)
            progress.wait_for_ends(
                {place: (done[place] + later[place], done[place]) for place in later if later[place]}
            )
            assert worker.stop() == 0
    continued = _predicted(new)
    assert len(continued) == 2 * len(STREAMS) * LATER
    assert continued == _predicted(old)
    assert all(version == COUNT for _, version in continued.values())
    for app in (old, new):
        assert areba(app.file("w"), "verify").returncode == 0
