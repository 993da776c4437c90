"""The one door to Numba: our settings are in the environment before it (or Torch) is imported.

The cache of compiled code is a folder of our own, since whoever can write to it can run code as us.
"""

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from stream_app.errors import ConfigurationError

Function = TypeVar("Function", bound=Callable[..., Any])

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""One thread: sums over several depend on how many there are."""


def cache_folder() -> Path:
    """Where compiled code is kept: `AREBA_CACHE_DIR`, else a folder below the user's cache.

    Raises:
        ConfigurationError: Somebody else may write to it.
    """
    base = os.environ.get("AREBA_CACHE_DIR") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "areba"
    folder = Path(base) / "compiled"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigurationError(f"{folder}: others may write to the cache of compiled code; set AREBA_CACHE_DIR")
    return folder


def prepare_environment() -> None:
    """Set what Numba and Torch read once, when they are imported."""
    for variable in THREAD_VARIABLES:
        os.environ[variable] = "1"
    if "numba" not in sys.modules:
        os.environ["NUMBA_CACHE_DIR"] = str(cache_folder())
        os.environ["NUMBA_SLP_VECTORIZE"] = "1"


prepare_environment()

import numba  # noqa: E402  (after the environment is set)


def compiled(function: Function) -> Function:
    """Compile for the machine, strict IEEE order, GIL released, cached on disk."""
    result: Function = numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False)(function)
    return result


def bare(function: Function) -> Function:
    """As `compiled`, for loops that make no array: without reference counts.

    Counting the references of the arrays of a named tuple in every helper took three quarters of the join's time. What is
    called from such a function must be bare too.
    """
    result: Function = numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)(function)
    return result


def bare_inlined(function: Function) -> Function:
    """A bare function that is put in the place of its call: passing a named tuple copies it."""
    options = {"cache": True, "nogil": True, "error_model": "numpy", "forceinline": True, "_nrt": False}
    result: Function = numba.njit(**options)(function)
    return result
