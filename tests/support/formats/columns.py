"""Records as the columns that the codec writes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stream_app.records import ID_WORDS, NO_LONG, Outcome, OutcomeKind, Prediction, Words, pack_id
from stream_app.serialization.encode import OutcomeColumns, PredictionColumns


def _names(texts: Sequence[str | None]) -> tuple[list[str], list[int]]:
    """Return the distinct names, and the index of each row's name among them; -1 for None."""
    distinct = sorted({text for text in texts if text is not None})
    return distinct, [-1 if text is None else distinct.index(text) for text in texts]


def _ids(texts: Sequence[str]) -> Words:
    return np.array([pack_id(text) for text in texts], np.uint64).reshape(len(texts), ID_WORDS)


def prediction_columns(records: Sequence[Prediction]) -> PredictionColumns:
    """Return the records in the columns that the worker uses."""
    stream_names, streams = _names([record.stream for record in records])
    learner_names, learners = _names([record.learner for record in records])
    return PredictionColumns(
        stream_names=stream_names,
        learner_names=learner_names,
        streams=np.array(streams, np.int32),
        learners=np.array(learners, np.int32),
        ids=_ids([record.id for record in records]),
        champions=np.array([record.champion for record in records], np.bool_),
        scores=np.array([record.score for record in records], np.float32),
        labels=np.array([record.predicted_class for record in records], np.int8),
        model_versions=np.array([record.model_version for record in records], np.int64),
        event_times_ms=np.array([record.event_time_ms for record in records], np.int64),
    )


def outcome_columns(records: Sequence[Outcome]) -> OutcomeColumns:
    """Return the records in the columns that the worker uses."""

    def longs(values: Sequence[int | None]) -> Any:  # noqa: ANN401  (an array of int64)
        return np.array([NO_LONG if value is None else value for value in values], np.int64)

    stream_names, streams = _names([record.stream for record in records])
    learner_names, learners = _names([record.learner for record in records])
    return OutcomeColumns(
        stream_names=stream_names,
        learner_names=learner_names,
        streams=np.array(streams, np.int32),
        outcomes=np.array([OutcomeKind[record.outcome.upper()] for record in records], np.uint8),
        ids=_ids([record.id for record in records]),
        labels=np.array([-1 if record.label is None else record.label for record in records], np.int8),
        learners=np.array(learners, np.int32),
        scores=np.array([math.nan if record.score is None else record.score for record in records], np.float32),
        delays_ms=longs([record.delay_ms for record in records]),
        example_offsets=longs([record.example_offset for record in records]),
        label_offsets=longs([record.label_offset for record in records]),
        event_times_ms=longs([record.event_time_ms for record in records]),
    )
