"""Every learner in the stages of the application: champion or challenger, with any batches, from bytes to bytes."""

from typing import TypeVar

import numpy as np
import pytest

from stream_app.config import LearnerSettings, MetricSettings, StreamSettings, TaskSettings
from stream_app.join.stream_join import HASH_KEY_BYTES
from stream_app.learners.factory import LearnerResources
from stream_app.learners.registry import METHODS
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.pipeline.stream import Stream, TaskResources, seed_of
from stream_app.pipeline.task import Task
from stream_app.record_columns import RawRecords
from stream_app.records import Example, Label, Metric, Prediction
from stream_app.serialization import codec
from tests.support.learner_steps import settings_of, stream
from tests.support.tasks import settings_of_task

Published = TypeVar("Published", Prediction, Metric)

COUNT = 400
FEATURES = 3
LEARNERS = {
    **{name: settings_of(method=name, scaler="standard") for name in METHODS},
    "own": LearnerSettings(method="tests.unit.learners.test_own_learner:NearestMean"),
}


def settings(champion: str) -> TaskSettings:
    """Return settings with all learners on one stream, whose predictions are all published."""
    of = StreamSettings(features=FEATURES, champion=champion, learners=LEARNERS)
    return settings_of_task(
        application_id="all",
        predictions="all",
        metrics=MetricSettings(every_labels=100),
        streams={"s": of},
        default_stream=of,
    )


def inputs() -> tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]]:
    """Return examples a second apart, and their labels five seconds later."""
    examples, labels = stream(COUNT, FEATURES, positives=0.2)
    return (
        [(1000 * (k + 1), codec.encode(Example("s", str(k), examples[k].tolist()))) for k in range(COUNT)],
        [(1000 * (k + 1) + 4999, codec.encode(Label("s", str(k), int(labels[k])))) for k in range(COUNT)],
    )


def raw(records: list[tuple[int, bytes]], start: int) -> RawRecords:
    """Return a range of a partition."""
    offsets = np.arange(start, start + len(records), dtype=np.int64)
    times = np.array([time for time, _ in records], np.int64)
    return RawRecords.of(offsets, times, [b"s"] * len(records), [value for _, value in records])


Values = dict[str, list[bytes | None]]


def run(champion: str, cuts: int) -> tuple[Task, Values]:
    """Process everything in time slices; return the task and the published values by topic."""
    task = Task(0, settings(champion), ("examples", "labels"))
    values: Values = {topic: [] for topic in OUTPUT_TOPICS}
    examples, labels = inputs()
    width = 1000 * (COUNT + 6) // cuts + 1
    done = [0, 0]
    for end in range(width, width * (cuts + 1), width):
        parts = []
        for side, records in enumerate((examples, labels)):
            part = [record for record in records[done[side] :] if record[0] < end]
            parts.append(raw(part, done[side]))
            done[side] += len(part)
        for topic, out in task.step(*parts).topics.items():
            values[topic] += out.values
    return task, values


def published(values: Values, kind: type[Published]) -> list[Published]:
    """Return the records of one kind."""
    records = (codec.decode_one(value or b"") for topic in values.values() for value in topic)
    return [record for record in records if isinstance(record, kind)]


@pytest.fixture(scope="module")
def whole() -> tuple[Task, Values]:
    """Process everything in one batch, with AREBA as the champion."""
    return run("areba", 1)


def test_every_learner_predicts_learns_and_is_measured(whole: tuple[Task, Values]) -> None:
    """A method that works alone may still not fit the records: null scores, wrong classes, no metrics."""
    predictions, metrics = published(whole[1], Prediction), published(whole[1], Metric)
    for name in LEARNERS:
        own = [record for record in predictions if record.learner == name]
        assert len(own) == COUNT
        assert all(0.0 <= record.score <= 1.0 and record.predicted_class in {0, 1} for record in own)
        assert {record.champion for record in own} == {name == "areba"}
        last = [record for record in metrics if record.learner == name][-1]
        assert last.labelled == COUNT
        assert last.updates > 0
        assert own[-1].model_version <= last.updates
        assert last.main_window.gmean is not None
    ensembles = [record for record in predictions if record.learner in {"oob", "uob"}]
    assert any(record.predicted_class != (record.score > 0.5) for record in ensembles), "a vote is not a mean"


def test_any_batches_give_the_same_bytes(whole: tuple[Task, Values]) -> None:
    """The promise of the application, for all methods together."""
    task, values = run("areba", 23)
    assert values == whole[1]
    assert task.model_digests() == whole[0].model_digests()


@pytest.mark.parametrize("champion", LEARNERS)
def test_each_can_be_the_champion(champion: str, whole: tuple[Task, Values]) -> None:
    """Another champion changes which predictions count, and no prediction."""
    task, values = run(champion, 1)
    assert {record.learner for record in published(values, Prediction) if record.champion} == {champion}
    assert task.model_digests() == whole[0].model_digests()


def test_no_two_learners_have_one_seed() -> None:
    """Names that join to the same text would draw the same numbers: an ensemble would add nothing."""
    names = [("ab", "c", "d"), ("a", "bc", "d"), ("a", "b", "cd"), ("", "abc", "d"), ("abc", "", "d"), ("ab", "cd", "")]
    assert len({seed_of(*parts) for parts in names}) == len(names)
    first, second = (
        Stream(
            name,
            StreamSettings(features=2, champion=learner, learners={learner: LEARNERS["oob"]}),
            TaskResources(settings("oob"), bytes(HASH_KEY_BYTES), LearnerResources()),
        )
        for name, learner in (("ab", "c"), ("a", "bc"))
    )
    for one in (first, second):
        one.set_features(2)
    weights = [one.learners[0].arrays()["parameters"] for one in (first, second)]
    assert (weights[0] != weights[1]).any()
