"""`areba repartition` on a real broker, as an operator runs it."""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ops.broker import Broker
from stream_app.backends.partitioner import partition_of
from stream_app.records import Example, Label, Outcome, Side
from stream_app.serialization import codec
from tests.support.kafka.application import App
from tests.support.kafka.processes import areba, run_to
from tests.support.rows import Sent

pytestmark = pytest.mark.kafka

NAMES = ("s0", "s16", "s1", "s5")
"""One of each of four partitions; of two partitions, two are in each."""


def _records(partitions: int, start_ms: int, first: int) -> Sequence[Sent]:
    """Return examples of all streams in order of their times, each followed by the label of the seventh before it."""
    found = []
    for number in range(first, first + 40):
        for name in NAMES:
            key, place, time_ms = name.encode(), partition_of(name.encode(), partitions), start_ms + 10 * number
            example = Example(name, f"e{number}", [float(number % 5), float(number % 3), 1.0])
            found.append(Sent(Side.EXAMPLES, place, time_ms, key, codec.encode(example)))
            if number >= 7:
                label = Label(name, f"e{number - 7}", number % 2)
                found.append(Sent(Side.LABELS, place, time_ms, key, codec.encode(label)))
    return found


def _by_stream(app: App) -> dict[tuple[str, bytes | None], list[Any]]:
    """Return all outputs by topic and stream, without partitions and offsets."""
    found: defaultdict[tuple[str, bytes | None], list[Any]] = defaultdict(list)
    for number in range(app.partitions):
        for topic, rows in app.outputs(number).items():
            for row in rows:
                record = codec.decode_one(row.value or b"") if topic == "outcomes" else row.value
                if isinstance(record, Outcome):
                    record = codec.encode(replace(record, example_offset=None, label_offset=None))
                headers = [one for one in row.headers if not one[0].startswith("__connect.errors")]
                found[topic, row.key].append((record, headers))
    return found


@pytest.mark.slow(40)
def test_from_two_partitions_to_four(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """The outputs are those of an application that always had four; verify finds nothing, explain the same bits."""
    assert kafka.bootstrap_servers is not None
    sections = {"streams": {name: {"features": 3} for name in NAMES}}
    common = (tmp_path, sections)
    moved = App(kafka.bootstrap_servers, f"{prefix}a.", *common, partitions=2, application=f"{prefix}app")
    direct = App(kafka.bootstrap_servers, f"{prefix}b.", *common, partitions=4, application=f"{prefix}app")
    start_ms = int(time.time() * 1000) - 600_000
    moved.create_topics()
    moved.send(_records(2, start_ms, 0))
    run_to(moved.config, moved.input_ends())
    file = moved.file("here")
    answer = areba(file, "repartition", "--to", "4")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.splitlines()[-1].endswith("has 4 partitions: start the workers, then the producers")
    assert areba(file, "repartition", "--to", "4").returncode == 0
    moved = replace(moved, partitions=4)
    moved.send(_records(4, start_ms, 40))
    models = run_to(moved.config, moved.input_ends())
    direct.create_topics()
    for first in (0, 40):
        direct.send(_records(4, start_ms, first))
        run_to(direct.config, direct.input_ends())
    one, two = _by_stream(moved), _by_stream(direct)
    assert one == two
    checked = areba(file, "verify")
    assert checked.returncode == 0, checked.stdout
    assert run_to(moved.config, moved.input_ends()) == models
    answer = areba(file, "inspect")
    assert "split" not in answer.stdout, answer.stdout
