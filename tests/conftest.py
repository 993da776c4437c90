"""Fixtures for all tests: brokers, which start when a test first asks for them and which all tests of a session share.

With pytest-xdist each worker has a separate session, and therefore separate brokers.
"""

import os
import signal
import uuid
from collections.abc import Iterator

import pytest

from ops import broker
from ops.local_kafka import cluster as local_kafka
from ops.local_kafka.jars import missing_tools
from stream_app.errors import ConfigurationError
from tests.support.compiling import compile_in_one_process
from tests.support.kafka.secure_broker import SecureKafka, secure_kafka


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile once, in one process, before pytest-xdist starts its workers: else each of them would compile.

    A shell starts a command in the background with SIGINT ignored, and each child inherits that; the tests of Ctrl-C
    need the default.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config = session.config
    is_worker = hasattr(config, "workerinput")
    if config.getoption("numprocesses", None) and not is_worker and not config.option.collectonly:
        line = compile_in_one_process()
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(line)


def _without_kafka(reason: str) -> None:
    """Skip on a developer's machine; fail on a build server, where a run without Kafka would have tested nothing."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def kafka() -> Iterator[broker.Broker]:
    """Start a Kafka of any kind with at least one broker; tests keep their topics apart by `prefix`."""
    with broker.choose() as chosen:
        if chosen.bootstrap_servers is None:
            _without_kafka(chosen.reason)
        yield chosen


def _local_kafka(brokers: int) -> Iterator[local_kafka.LocalKafka]:
    try:
        cluster = local_kafka.start(brokers)
    except ConfigurationError as problem:
        _without_kafka(str(problem))
        raise
    with cluster:
        yield cluster


@pytest.fixture(scope="module")
def kafka3() -> Iterator[local_kafka.LocalKafka]:
    """Start three brokers with everything replicated to all of them; a test that kills a broker restarts it."""
    yield from _local_kafka(3)


@pytest.fixture
def own_kafka() -> Iterator[local_kafka.LocalKafka]:
    """Start one broker for one test, which may do anything to it."""
    yield from _local_kafka(1)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """Start one broker with users and permissions for all tests of a module."""
    if missing := missing_tools():
        _without_kafka(f"{missing} not on the PATH")
    with secure_kafka(tmp_path_factory.mktemp("secure")) as kafka:
        yield kafka


@pytest.fixture
def prefix() -> str:
    """Return a prefix for topics, groups and transactional ids, so that tests do not interfere."""
    return f"t{uuid.uuid4().hex[:8]}-"
