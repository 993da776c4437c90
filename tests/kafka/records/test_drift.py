"""Drift without labels on a real broker: it is published while no label is sent at all."""

import time
from pathlib import Path

import numpy as np
import pytest

from ops.broker import Broker
from stream_app.records import Metric, Side
from stream_app.serialization import codec
from stream_app.serialization.encode import encode_examples
from tests.support.kafka.application import App, Section
from tests.support.kafka.processes import areba, workers
from tests.support.kafka.waiting import DEADLINE_S, wait_until
from tests.support.rows import Sent

pytestmark = [pytest.mark.kafka, pytest.mark.slow(20)]

SECTIONS: dict[str, Section] = {
    "streams": {"s": {"features": 3, "drift": {"reference_examples": 200, "window_examples": 100}}}
}


def _sent(first: int, count: int, shift: float) -> list[Sent]:
    features = np.random.default_rng(first).normal(size=(count, 3)).astype(np.float32)
    features[:, 1] += np.float32(shift)
    now = int(time.time() * 1000)
    values = encode_examples("s", [str(number) for number in range(first, first + count)], features)
    return [Sent(Side.EXAMPLES, 0, now, b"s", value) for value in values]


def test_a_drift_is_published_without_a_label(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """Labels come days later; a worker that is killed in between must neither lose the reference nor flag anything."""
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, prefix, tmp_path, SECTIONS)
    app.create_topics()

    def found() -> list[Metric]:
        metrics = [codec.decode_one(row.value or b"") for row in app.outputs(0)["metrics"]]
        return [metric for metric in metrics if isinstance(metric, Metric) and metric.champion]

    with workers(app, "w") as (worker,):
        worker.start()
        app.send(_sent(0, 550, 0.0))
        wait_until(lambda: len(found()) == 5, "the metrics of five windows", DEADLINE_S)
        worker.kill()
        worker.start()
        app.send(_sent(550, 250, 2.0))
        wait_until(lambda: len(found()) == 8, "the metrics of eight windows", DEADLINE_S)
        assert worker.stop() == 0
    assert [metric.drift_examples for metric in found()] == [None, None, 300, 400, 500, 600, 700, 800]
    assert [metric.features_drifted for metric in found()] == [None, None, 0, 0, 0, 1, 1, 1]
    assert {(metric.largest_feature, metric.labelled) for metric in found()[-2:]} == {(1, 0)}
    assert areba(app.file("w"), "verify").returncode == 0
