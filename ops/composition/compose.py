"""Docker's or Podman's compose, as a program that this process runs."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from stream_app.errors import ConfigurationError

ROOT = Path(__file__).parents[2]

FILE = ROOT / "docker-compose.yml"

COMMANDS = {"docker": ("docker", "compose"), "podman": ("podman-compose",)}
"""The command of each engine, in the order in which they are tried."""

ANSWER_TIMEOUT_S = 30.0

COMMAND_TIMEOUT_S = 300.0
"""Stopping everything may wait for one container after another."""

STOP_S = "10"
"""The time until a container is killed: a worker whose Kafka was stopped first cannot end its transaction."""

BUILD_TIMEOUT_S = 3600.0
"""The first start fetches some GB and compiles."""

PULL_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Composition:
    """A composition with its own name.

    Attributes:
        engine: `docker` or `podman`.
        project: The name; the names of containers, networks and volumes begin with it.
        variables: Variables for docker-compose.yml.
    """

    engine: str
    project: str
    variables: Mapping[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
        """Run a command of compose, and return what it prints, on both outputs.

        Raises:
            ConfigurationError: It failed, or took too long.
        """
        command = [*COMMANDS[self.engine], "--project-name", self.project, "--file", str(FILE), *arguments]
        environment = {**os.environ, **self.variables}
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=True,
                text=True,
            )
        except subprocess.TimeoutExpired:
            raise ConfigurationError(f"{' '.join(command)}: did not end within {timeout_s:.0f} s") from None
        except subprocess.CalledProcessError as error:
            raise ConfigurationError(
                [f"{' '.join(command)}: exit status {error.returncode}", *error.stdout.splitlines()]
            ) from None
        return done.stdout

    def up(self, *services: str) -> None:
        """Start services; their image is built if it is missing. Raises as `run` does."""
        self.run("up", "--detach", *services, timeout_s=BUILD_TIMEOUT_S)

    def logs(self, service: str) -> str:
        """Return the log of a service. Raises as `run` does."""
        return self.run("logs", service)

    def execute(self, service: str, *command: str) -> str:
        """Run a command in the container of a service, and return its output. Raises as `run` does."""
        return self.run("exec", "-T", service, *command)

    def down(self) -> None:
        """Stop and remove everything, volumes included. Raises as `run` does."""
        self.run("down", "--volumes", "--timeout", STOP_S)

    def has_image(self, service: str) -> bool:
        """Say whether the image of a service is on this machine, or can be fetched."""
        image = yaml.safe_load(FILE.read_text(encoding="utf-8"))["services"][service]["image"]
        return _succeeds((self.engine, "image", "inspect", image), ANSWER_TIMEOUT_S) or _succeeds(
            (self.engine, "pull", "--quiet", image), PULL_TIMEOUT_S
        )


def find() -> str:
    """Return the engine that answers and has compose.

    Raises:
        ConfigurationError: No engine answers.
    """
    for engine, command in COMMANDS.items():
        if _succeeds((engine, "info"), ANSWER_TIMEOUT_S) and _succeeds((*command, "version"), ANSWER_TIMEOUT_S):
            return engine
    raise ConfigurationError("neither `docker compose` nor `podman-compose` answers")


def _succeeds(command: Sequence[str], timeout_s: float) -> bool:
    if shutil.which(command[0]) is None:
        return False
    try:
        return subprocess.run(command, capture_output=True, timeout=timeout_s, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False
