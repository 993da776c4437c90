"""The study's figures equal the application's: the same stream through Kafka and through `python -m study`."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ops.broker import Broker
from stream_app.pipeline.prequential import COLUMNS
from stream_app.pipeline.stream import seed_of
from stream_app.producers.events import events, id_prefix
from stream_app.producers.schedule import schedule
from stream_app.records import Metric, Prediction, Side
from stream_app.serialization import codec
from study.report.scores import prequential_sums
from study.run.experiment import Run, parse
from study.run.runs import plan_of, repeat
from study.run.streams import application_id, data_of, data_seed
from tests.support.kafka.application import App, Section
from tests.support.kafka.processes import run_to
from tests.support.rows import Sent

pytestmark = pytest.mark.kafka

EXAMPLES, REPETITION = 600, 3

LEARNERS: Mapping[str, Mapping[str, Any]] = {
    "areba_20": {"method": "areba", "budget": 20},
    "oob": {"method": "oob", "ensemble_size": 5},
    "baseline": {"method": "baseline"},
}

RUN = Run(
    parse(
        {
            "name": "twin",
            "title": "A stationary stream without delay",
            "group": "stationary",
            "stream": {"source": "sine", "length": EXAMPLES, "imbalance": 10},
            "methods": LEARNERS,
        },
        "twin.yaml",
    ),
    "both",
)


def test_kafka_and_the_study_give_the_same_bits(
    kafka: Broker, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of the report runs the application, not the study: every score and sum must be the same, bit for bit.

    The stream is stationary, has no delay and its own partition, and all of its data is on the broker before. Here the
    study seeds each learner as the application does, not all learners of a repetition equally.
    """
    monkeypatch.setattr("study.run.runs.same_seed", seed_of)
    assert kafka.bootstrap_servers is not None
    sections: Mapping[str, Section] = {
        "predictions": "all",
        "metrics": {"every_labels": 1},
        "learners": LEARNERS,
        "streams": {"sine": {}},
    }
    app = App(kafka.bootstrap_servers, prefix, tmp_path, sections, application=application_id(RUN, REPETITION))
    app.create_topics()
    plan = plan_of(RUN, data_of(RUN, REPETITION), data_seed(RUN, REPETITION))
    plan = replace(plan, start_ms=int(time.time() * 1000) - schedule(plan).span_ms - 1_000)
    app.send(
        [
            Sent(Side.EXAMPLES if topic == plan.examples_topic else Side.LABELS, 0, time_ms, key, value)
            for topic, key, value, time_ms in events(plan)
        ]
    )
    run_to(app.config, app.input_ends())

    study = repeat(RUN, REPETITION)
    classes, scores = np.full_like(study.classes, -1), np.full_like(study.scores, np.nan)
    sums = np.full((len(LEARNERS), EXAMPLES, len(COLUMNS)), np.nan)
    ids = id_prefix(plan, plan.streams[0])
    outputs, rows = app.outputs(0), {name: row for row, name in enumerate(LEARNERS)}
    for read in outputs["predictions"]:
        prediction = codec.decode_one(read.value or b"")
        assert isinstance(prediction, Prediction)
        place = rows[prediction.learner], int(prediction.id.removeprefix(ids))
        classes[place], scores[place] = prediction.predicted_class, prediction.score
    for read in outputs["metrics"]:
        metric = codec.decode_one(read.value or b"")
        assert isinstance(metric, Metric)
        sums[rows[metric.learner], metric.labelled - 1] = [getattr(metric.main_window, column) for column in COLUMNS]

    assert (classes == study.classes).all()
    assert scores.tobytes() == study.scores.tobytes()
    for row, name in enumerate(LEARNERS):
        expected = prequential_sums(study.classes[row], study.labels, (), RUN.experiment.fading)
        assert sums[row].tobytes() == expected.tobytes(), name
