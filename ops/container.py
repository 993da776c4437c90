"""A broker in a container of Apache's image, reachable through the loopback interface only."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from ops.local_kafka.jars import kafka_version
from ops.local_kafka.plan import (
    HOST,
    BrokerPorts,
    ClusterPlan,
    broker_properties,
    free_ports,
    new_cluster_id,
)
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.errors import ConfigurationError

_UNIX = "unix://"

_DEFAULT_ENGINE = f"{_UNIX}/var/run/docker.sock"
"""Where the client looks without `DOCKER_HOST`."""

_ENGINE_TIMEOUT_S = 5
"""The longest wait for a container engine; on the same machine it answers at once or never."""

_START_TIMEOUT_S = 60.0
"""From a started container to a broker that answers; by then the image is loaded."""

ATTEMPT_S = 1.0
"""One attempt within the start timeout."""

PORT, CONTROLLER_PORT = 9092, 9093
"""The broker's ports inside the container."""


def kafka_image() -> str:
    """Return the name of Apache's image of the version that runs for tests. Raises as `kafka_version` does."""
    return f"apache/kafka:{kafka_version()}"


def engine_answers() -> bool:
    """Say whether a container engine answers."""
    address = os.environ.get("DOCKER_HOST") or _DEFAULT_ENGINE
    if address.startswith(_UNIX) and not Path(address.removeprefix(_UNIX)).exists():
        return False  # Docker's client would leave a socket open
    try:
        import docker  # noqa: PLC0415  (comes with testcontainers, which costs a second)
    except ImportError:
        return False
    try:
        client = docker.from_env(timeout=_ENGINE_TIMEOUT_S)
    except docker.errors.DockerException:
        return False
    try:
        return bool(client.ping())
    except (docker.errors.DockerException, OSError):
        return False
    finally:
        client.close()


@contextmanager
def start() -> Iterator[str]:
    """Run a broker while the context lasts; yield its address.

    Raises:
        ConfigurationError: The container does not start, or the broker does not answer in time.
    """
    from docker.errors import DockerException  # noqa: PLC0415  (as above)
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415

    image = kafka_image()
    [port] = free_ports(1, [])
    container = DockerContainer(image).with_envs(**_environment(port))
    container.ports = {f"{PORT}/tcp": (HOST, port)}  # type: ignore[dict-item]  # the engine takes an address too
    servers = f"{HOST}:{port}"
    try:
        container.start()
    except DockerException as problem:
        raise ConfigurationError(f"{image} does not start: {problem}") from problem
    try:
        if not _comes_up(servers):
            said = b"".join(container.get_logs()).decode(errors="replace").strip().splitlines()[-1:]
            raise ConfigurationError(f"{image} did not answer within {_START_TIMEOUT_S:.0f} s: {' '.join(said)}")
        yield servers
    finally:
        container.stop()


def _environment(port: int) -> Mapping[str, str]:
    """Return the settings of a local broker as the image's environment variables.

    Inside the container the broker listens on all interfaces; the engine passes on only what comes to loopback.
    """
    plan = ClusterPlan(new_cluster_id(), (BrokerPorts(1, PORT, CONTROLLER_PORT),))
    settings = {
        **broker_properties(plan, plan.brokers[0], PurePosixPath("/tmp/kafka-logs")),  # noqa: S108  (the container's own)
        "listeners": f"PLAINTEXT://:{PORT},CONTROLLER://:{CONTROLLER_PORT}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
    }
    variables = {"KAFKA_" + name.upper().replace(".", "_"): str(value) for name, value in settings.items()}
    return {**variables, "CLUSTER_ID": plan.cluster_id}


def _comes_up(servers: str) -> bool:
    deadline = time.monotonic() + _START_TIMEOUT_S
    cluster = KafkaCluster(servers)
    while not cluster.broker_count(ATTEMPT_S):
        if time.monotonic() > deadline:
            return False
    return True
