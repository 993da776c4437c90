"""An application with two partitions, new or with processed inputs."""

import time
from pathlib import Path

import pytest

from ops.broker import Broker
from tests.kafka.recovery.applications import SECTIONS, STREAMS
from tests.support.kafka.application import App
from tests.support.kafka.processes import run_to
from tests.support.kafka.records import all_records


@pytest.fixture
def app(kafka: Broker, prefix: str, tmp_path: Path) -> App:
    """Return an application with two partitions, whose topics exist."""
    assert kafka.bootstrap_servers is not None
    made = App(kafka.bootstrap_servers, prefix, tmp_path, SECTIONS, partitions=2)
    made.create_topics()
    return made


@pytest.fixture
def done(app: App) -> App:
    """Return the application with inputs that a worker has processed."""
    app.send(all_records(STREAMS, 200, int(time.time() * 1000) - 60_000, seed=5))
    run_to(app.config, app.input_ends())
    return app
