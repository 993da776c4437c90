"""A changed configuration on the state of an application: taken over, started again, or refused."""

import time
from pathlib import Path

import pytest

from stream_app.backends.base import TopicPartition
from stream_app.errors import ConfigurationError
from stream_app.progress_records import SNAPSHOT, Act
from stream_app.records import Prediction
from stream_app.serialization import codec
from tests.kafka.recovery.applications import SECTIONS, STREAMS
from tests.support.kafka.application import App
from tests.support.kafka.decoded import progress_record_of
from tests.support.kafka.exactly_once import check_exactly_once
from tests.support.kafka.processes import areba, run_to, run_until, worker_of
from tests.support.kafka.records import StreamOf, all_records
from tests.support.kafka.topics import read_raw

pytestmark = [pytest.mark.kafka, pytest.mark.slow(15)]


def test_a_new_stream_is_taken_over_on_restart(done: App) -> None:
    """A new stream needs no new application: the old streams continue, bit for bit, and progress records the change."""
    more = (StreamOf("gamma", 1, 4),)
    done.send(all_records(more, 50, int(time.time() * 1000) - 30_000, seed=9))
    run_to(done.config_of("w", streams={"gamma": {"features": 4}}), done.input_ends())
    check_exactly_once(done)
    predictions = [codec.decode_one(read.value or b"") for read in done.outputs(1)["predictions"]]
    assert sum(isinstance(p, Prediction) and p.stream == "gamma" for p in predictions) == 50
    place = TopicPartition(done.config.topics.progress, 1)
    acts = [
        record for value in read_raw(done.cluster, place).values if isinstance(record := progress_record_of(value), Act)
    ]
    assert [act.kind for act in acts if act.kind != SNAPSHOT] == ["configuration"] * 2


def test_a_changed_budget_restarts_that_learner(done: App) -> None:
    """Progress records the change, so every later reader makes it at the same place; other learners keep their bits."""
    learners = {"areba": {"method": "areba", "budget": 10}, "baseline": {"method": "baseline"}}
    changed = done.config_of("w", learners=learners, metrics={"every_labels": 10})
    done.send(all_records(STREAMS, 100, int(time.time() * 1000) - 30_000, seed=19))
    models = run_to(changed, done.input_ends())
    expected = check_exactly_once(done)
    assert models == {number: result.models for number, result in expected.items()}
    assert run_to(changed, done.input_ends()) == models


def test_a_saved_model_continues_in_another_application(done: App, tmp_path: Path) -> None:
    """The operator's commands on both sides; the outputs of the second application equal a new process's."""
    model, first = tmp_path / "model.safetensors", done.file("w")
    saved = areba(first, "state", "export", "alpha", "areba", str(model), "--task", "0")
    assert saved.returncode == 0, saved.stderr
    second = App(done.servers, f"{done.prefix}2-", tmp_path / "second", SECTIONS, partitions=2)
    second.folder.mkdir()
    second.create_topics()
    result = areba(second.file("w"), "state", "import", str(model), "alpha", "areba", "--task", "0")
    assert result.returncode == 0, result.stderr
    assert result.stdout.split()[-1] == saved.stdout.split()[-1], "the same digest"
    second.send(all_records(STREAMS, 100, int(time.time() * 1000) - 30_000, seed=29))
    models = run_to(second.config, second.input_ends())
    expected = check_exactly_once(second)
    assert models == {number: result.models for number, result in expected.items()}
    first_prediction = codec.decode_one(second.outputs(0)["predictions"][0].value or b"")
    assert isinstance(first_prediction, Prediction)
    assert first_prediction.model_version > 0


def test_a_changed_fading_factor_is_refused(done: App) -> None:
    """Sums would fade at two rates: the worker ends with status 2, and the line names the setting."""
    with pytest.raises(ConfigurationError) as caught:
        run_until(
            worker_of(done.config_of("w", metrics={"every_labels": 10, "fading_factors": [0.5]})), lambda _: False
        )
    assert caught.value.exit_code == 2
    assert any(line.startswith("metrics.fading_factors: [0.99] -> [0.5]") for line in caught.value.lines)
