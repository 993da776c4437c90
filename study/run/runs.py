"""A repetition runs through the worker's own stages: records as a replay sends them, one task, all learners in it."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from stream_app.config import Config, JoinSettings, MetricSettings, StreamSettings, TaskSettings
from stream_app.pipeline.stream import seed_of
from stream_app.pipeline.task import Task
from stream_app.producers.datasets.base import DataSet
from stream_app.producers.events import Sent, events, id_prefix
from stream_app.producers.label_delay import parse_label_delay
from stream_app.producers.plan import Plan, StreamPlan
from stream_app.record_columns import RawRecords
from study.run.checked import answer
from study.run.experiment import Run
from study.run.ranking import rankings_of
from study.run.reading import Answered, read_predictions
from study.run.streams import application_id, data_of, data_seed

START_MS = 1_700_000_000_000
"""Event time of the first example. No result depends on it."""

BATCH_RECORDS = 10_000
"""Records of a batch, as `worker.max_batch_records`. No result depends on where a batch is cut."""

TOPICS = ("examples", "labels")


@dataclass(frozen=True, slots=True)
class Repetition:
    """The results of one repetition.

    Attributes:
        classes: int8 `[learners, n]`, each learner's class on the arrival of each example.
        scores: float32 `[learners, n]`.
        labels: int8 `[n]`, the clean class of each example.
        seconds: The duration.
    """

    classes: NDArray[np.int8]
    scores: NDArray[np.float32]
    labels: NDArray[np.int8]
    seconds: float

    @property
    def rankings(self) -> NDArray[np.float32]:
        """Figures that rate the scores: float32 `[learners, 3]` by `ranking.RANKINGS`."""
        return rankings_of(self.scores, self.labels)


def settings_of(run: Run, repetition: int, only: str | None = None) -> TaskSettings:
    """Return the task's settings: the stream is named after its source, and the first method is the champion.

    Args:
        run: The run.
        repetition: The number of the repetition.
        only: The only method of the task; None: it has all.
    """
    experiment = run.experiment
    methods = {name: one for name, one in experiment.methods.items() if only in {None, name}}
    stream = StreamSettings.model_construct(features=None, champion=next(iter(methods)), learners=methods)
    chosen = {
        "application_id": application_id(run, repetition),
        "metrics": MetricSettings(every_labels=1_000_000_000, fading_factors=(experiment.fading,)),
        "predictions": "all",
        "join": JoinSettings(corrections="correct" if experiment.stream.checks is not None else "first"),
        "streams": {experiment.stream.stream: stream},
        "default_stream": stream,
    }
    return Config().task_settings().model_copy(update=chosen)  # a method of the study's own is not valid elsewhere


def plan_of(run: Run, data: DataSet, seed: int) -> Plan:
    """Return the plan of the replay: with no delay each label comes directly after its example."""
    choice = run.experiment.stream
    stream = StreamPlan(
        stream=choice.stream,
        data=data,
        delay=parse_label_delay(choice.label_delay),
        unlabelled_share=1.0 - choice.label_share,
    )
    return Plan(streams=(stream,), seed=seed, start_ms=START_MS)


def same_seed(application_id: str, stream: str, _learner: str) -> bytes:
    """Return the seed of all learners of a repetition, so that equal networks start from equal weights."""
    return seed_of(application_id, stream, "")


def repeat(run: Run, repetition: int) -> Repetition:
    """Run one repetition.

    Raises:
        DataSetError: A data set is missing or damaged.
        ConfigurationError: A learner cannot be built.
    """
    start_s = time.perf_counter()
    data = data_of(run, repetition)
    answered = (
        _answered(run, repetition, data) if run.experiment.stream.checks is None else _checked(run, repetition, data)
    )
    clean = data.labels if data.clean_labels is None else data.clean_labels
    return Repetition(answered.classes, answered.scores, clean, time.perf_counter() - start_s)


def _answered(run: Run, repetition: int, data: DataSet) -> Answered:
    """Send a planned stream to a task with all learners."""
    plan = plan_of(run, data, data_seed(run, repetition))
    learners = tuple(run.experiment.methods)
    task = Task(0, settings_of(run, repetition), TOPICS, seed_of=same_seed)
    answered = Answered.empty(len(learners), len(data))
    prefix = id_prefix(plan, plan.streams[0])
    for examples, labels in batches(plan):
        outputs = task.step(examples, labels)
        read_predictions(outputs.topics["predictions"].values, learners, prefix, answered)
    return answered


def _checked(run: Run, repetition: int, data: DataSet) -> Answered:
    """Send the stream to a task for each learner, whose predictions decide which labels it gets."""
    stream = run.experiment.stream
    answered = Answered.empty(len(run.experiment.methods), len(data))
    for row, name in enumerate(run.experiment.methods):
        task = Task(0, settings_of(run, repetition, only=name), TOPICS, seed_of=same_seed)
        if stream.checks is not None:
            answered.classes[row], answered.scores[row] = answer(
                task, name, stream.source, data, stream.checks, START_MS
            )
    return answered


def batches(plan: Plan) -> Iterator[tuple[RawRecords, RawRecords]]:
    """Yield the records of a plan as a worker gets them: ranges of both inputs, cut in event-time order."""
    records = events(plan)
    read = [0, 0]
    while batch := list(islice(records, BATCH_RECORDS)):
        sides = tuple([record for record in batch if record.topic == topic] for topic in TOPICS)
        yield _raw(sides[0], read[0]), _raw(sides[1], read[1])
        read = [count + len(side) for count, side in zip(read, sides, strict=True)]


def _raw(records: list[Sent], first_offset: int) -> RawRecords:
    return RawRecords.of(
        offsets=np.arange(first_offset, first_offset + len(records), dtype=np.int64),
        timestamps=np.array([record.timestamp_ms for record in records], np.int64),
        keys=[record.key for record in records],
        values=[record.value for record in records],
    )
