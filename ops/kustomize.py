"""Render manifests with kustomize from the PATH, or with a pinned version that Go builds once into `.local`."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from stream_app.errors import ConfigurationError

VERSION = "v5.7.1"

FOLDER = Path(__file__).parents[1] / ".local" / f"kustomize-{VERSION}"

BUILD_TIMEOUT_S = 600.0
"""The sources are some megabytes; compiling them takes a minute on a busy core."""

RENDER_TIMEOUT_S = 30.0


def render(folder: Path) -> Sequence[dict[str, Any]]:
    """Return the objects that kustomize makes of a folder.

    Raises:
        ConfigurationError: There is neither kustomize nor Go, or one of them failed.
    """
    return list(yaml.safe_load_all(_run([str(kustomize()), "build", str(folder)], RENDER_TIMEOUT_S)))


def kustomize() -> Path:
    """Return the program; build it if necessary.

    Raises:
        ConfigurationError: There is neither kustomize nor Go, or Go could not build it.
    """
    installed = shutil.which("kustomize")
    if installed:
        return Path(installed)
    program = FOLDER / "kustomize"
    if not program.exists():
        if shutil.which("go") is None:
            raise ConfigurationError("neither kustomize nor go is on the PATH")
        FOLDER.mkdir(parents=True, exist_ok=True)
        module = f"sigs.k8s.io/kustomize/kustomize/v5@{VERSION}"
        _run(["go", "install", module], BUILD_TIMEOUT_S, GOBIN=str(FOLDER))
    return program


def _run(command: Sequence[str], timeout_s: float, **variables: str) -> str:
    """Run a program, and return its standard output.

    Raises:
        ConfigurationError: It failed, or took too long.
    """
    environment = {**os.environ, **variables}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=True, env=environment)
    except subprocess.TimeoutExpired:
        raise ConfigurationError(f"{command[0]} did not end within {timeout_s:.0f} s") from None
    except subprocess.CalledProcessError as error:
        raise ConfigurationError([f"{' '.join(command)} failed:", *error.stderr.splitlines()[-20:]]) from None
    return done.stdout
