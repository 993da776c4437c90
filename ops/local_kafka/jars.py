"""The jars of Apache Kafka, fetched by Maven into a cache folder."""

import fcntl
import hashlib
import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stream_app.errors import ConfigurationError
from stream_app.terminal import Terminal

KAFKA_VERSION = "4.3.0"
"""The version that runs unless `VERSION_VARIABLE` names another one; pom.xml has it too."""

OLDEST_KAFKA_VERSION = "3.9.2"
"""The oldest version on which tests were run; docs/operations.md says which have passed."""

VERSION_VARIABLE = "AREBA_TEST_KAFKA_VERSION"

ASSETS = Path(__file__).parent
"""The folder with the list of jars and the brokers' log configuration."""

_FETCH_TIMEOUT_S = 600.0
"""54 MB take 6 s with a fast connection; ten minutes correspond to 90 kB/s."""

_LOCK_POLL_INTERVAL_S = 0.1

LOG_TAIL_LINES = 25
"""Lines of another program's output that an error shows."""


def kafka_version() -> str:
    """Return the version of Kafka that runs on this machine for tests and trials.

    Raises:
        ConfigurationError: The variable does not hold a version.
    """
    version = os.environ.get(VERSION_VARIABLE) or KAFKA_VERSION
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ConfigurationError(f"{VERSION_VARIABLE}={version}: not a version such as {OLDEST_KAFKA_VERSION}")
    return version


def missing_tools() -> list[str]:
    """Return which of `java` and `mvn` are not on the PATH."""
    return [tool for tool in ("java", "mvn") if shutil.which(tool) is None]


def kafka_jars() -> Path:
    """Return the folder with Kafka's jars; Maven fetches them on first use.

    Raises:
        ConfigurationError: Java or Maven is missing, Maven failed, or other users may write to the folder.
    """
    missing = missing_tools()
    if missing:
        raise ConfigurationError(
            f"a local Kafka needs {' and '.join(missing)} on the PATH (Java 17 or newer, Maven 3.6 or newer); "
            "or set kafka.bootstrap_servers"
        )
    base = _cache_folder()
    version = kafka_version()
    folder = base / f"kafka-{version}"
    pom = (ASSETS / "pom.xml").read_bytes().replace(KAFKA_VERSION.encode(), version.encode())
    with file_lock(base / f"kafka-{version}.lock", _FETCH_TIMEOUT_S):
        marker = folder / "pom.sha256"
        digest = hashlib.sha256(pom).hexdigest()
        if not (marker.exists() and marker.read_text(encoding="utf-8") == digest):
            _fetch_jars(folder, version, pom)
            marker.write_text(digest, encoding="utf-8")
    return folder / "lib"


def _cache_folder() -> Path:
    base = (
        os.environ.get("AREBA_CACHE_DIR") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "areba"
    )
    folder = Path(base).absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigurationError(
            f"{folder}: other users may write to this folder, from which programs are run; set AREBA_CACHE_DIR"
        )
    return folder


def _fetch_jars(folder: Path, version: str, pom: bytes) -> None:
    """Replace the folder by a new one with the jars that the pom names."""
    console = Terminal(stderr=True)
    console.print(f"Fetching Apache Kafka {version} with Maven (54 MB, only once) into {folder}", soft_wrap=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    (folder / "pom.xml").write_bytes(pom)
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder / 'lib'}"]
    command += ["-DexcludeArtifactIds=slf4j-reload4j"]  # Kafka 3.9 brings it, and would log to nowhere
    try:
        with console.status("Fetching ..."):
            done = subprocess.run(  # noqa: PLW1510  (the status is checked below)
                command, cwd=folder, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, stdin=subprocess.DEVNULL
            )
    except subprocess.TimeoutExpired:
        raise ConfigurationError(f"Maven did not fetch Kafka's jars within {_FETCH_TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines()[-LOG_TAIL_LINES:]
        raise ConfigurationError([f"Maven could not fetch Kafka's jars (exit status {done.returncode}):", *lines])


@contextmanager
def file_lock(file: Path, timeout_s: float) -> Iterator[None]:
    """Hold a lock on a file; the end of the process releases it in any case.

    Raises:
        ConfigurationError: Another process held the lock for the whole timeout.
    """
    deadline = time.monotonic() + timeout_s
    with file.open("w") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ConfigurationError(f"{file}: held by another process for {timeout_s:.0f} s") from None
                time.sleep(_LOCK_POLL_INTERVAL_S)
            else:
                break
        yield
