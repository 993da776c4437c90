"""A stream with two lanes on a real Kafka: what `areba-replay` sends, what is learned, and what the commands take."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from ops.broker import Broker
from stream_app.backends.base import TopicPartition
from stream_app.lanes import lane_names, lane_of
from stream_app.producers import cli
from stream_app.records import Outcome
from stream_app.serialization.codec import decode_one
from tests.support.kafka.application import App, Section
from tests.support.kafka.processes import areba, run_to
from tests.support.kafka.topics import read_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow(30)]

PARTITIONS = 2
EXAMPLES = 600
LANES = lane_names("waves", PARTITIONS)
SECTIONS: Mapping[str, Section] = {"streams": {"waves": {"features": 2, "lanes": PARTITIONS}}}


def _replay(file: Path, seed: int) -> None:
    source = f"sine:length={EXAMPLES},imbalance=20,seed={seed},stream=waves"
    result = CliRunner().invoke(cli.main, ["run", source, "-c", str(file), "--seed", str(seed)])
    assert result.exit_code == 0, result.output


def test_lanes_are_learned_side_by_side(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """Each partition has a lane; labels meet their examples, `verify` is clean, and commands find the lanes.

    Otherwise a stream that was split could not be trusted, or its owner had to know eight names.
    """
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, prefix, tmp_path, SECTIONS, partitions=PARTITIONS)
    file = app.file("w")
    app.create_topics()
    checked = areba(file, "topics", "check")
    assert "the 2 lanes of waves are in 2 of 2 partitions, at most 1 in each" in checked.stdout
    _replay(file, 1)
    run_to(app.config, app.input_ends())

    promoted = areba(file, "promote", "waves", "baseline")
    assert (promoted.returncode, promoted.stderr) == (0, "")
    assert [line.split(": ")[1] for line in promoted.stdout.splitlines()] == [
        f"baseline is the champion of {name} from here on" for name in LANES
    ]
    _replay(file, 2)
    run_to(app.config, app.input_ends())

    found: list[Outcome] = []
    for number in range(PARTITIONS):
        outputs = app.outputs(number)
        assert not outputs["dead-letters"]
        assert {read.key for read in outputs["predictions"]} == {LANES[number].encode()}
        assert len(outputs["outcomes"]) > EXAMPLES / 2
        for read in outputs["outcomes"]:
            outcome = decode_one(read.value or b"")
            assert isinstance(outcome, Outcome)
            assert (outcome.outcome, outcome.stream) == ("joined", lane_of("waves", PARTITIONS, outcome.id))
            found.append(outcome)
        assert (found[-1].stream, found[-1].learner) == (LANES[number], "baseline")
    assert len({outcome.id for outcome in found}) == 2 * EXAMPLES == len(found)
    assert areba(file, "verify").returncode == 0

    watched = areba(file, "watch", "--once", "--interval", "0", "--json")
    rows = [json.loads(line) for line in watched.stdout.splitlines()]
    assert [(row["stream"], row["learner"], row["labelled"]) for row in rows] == [
        ("waves", "baseline", 2 * EXAMPLES),
        ("waves", "areba", 2 * EXAMPLES),
    ]
    each = areba(file, "watch", "--once", "--interval", "0", "--json", "--lanes")
    assert {json.loads(line)["stream"] for line in each.stdout.splitlines()} == {"waves", *LANES}
    tailed = areba(file, "tail", "predictions", "--stream", "waves", "--id", found[0].id)
    assert [json.loads(line)["key"] for line in tailed.stdout.splitlines()] == [found[0].stream]

    explained = areba(file, "explain", "waves", found[-1].id)
    assert explained.returncode == 0, explained.stderr
    assert explained.stdout.startswith(f"{LANES[-1]} {found[-1].id}: ")
    assert "the same bits as published" in explained.stdout


def test_another_number_of_lanes_is_refused(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """Labels would go to other lanes than their examples; the check says so before a worker is started."""
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, prefix, tmp_path, SECTIONS, partitions=PARTITIONS)
    app.create_topics()
    _replay(app.file("w"), 1)
    run_to(app.config, app.input_ends())
    more = app.file("more", streams={"waves": {"features": 2, "lanes": 4}})
    checked, started = areba(more, "config", "--check"), areba(more, "run")
    line = "streams.waves.lanes: 2 -> 4 cannot be: labels would go to other lanes"
    assert checked.returncode == 1
    assert [one for one in checked.stdout.splitlines() if line in one and one.startswith("refused")]
    assert started.returncode == 2
    assert line in started.stderr
    sent = [read_topic(app.cluster, TopicPartition(app.config.topics.labels, number)) for number in range(PARTITIONS)]
    assert all(len(records) > EXAMPLES / 3 for records in sent)
