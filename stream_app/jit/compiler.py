"""The decorators for compiled code, and the environment that Numba and Torch must find when they are imported.

Everything else in the project that compiles imports them from here, so that these settings come first.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

LOCATORS = "stream_app.jit.cache.SourcesCacheLocator,UserWideCacheLocator,IPythonCacheLocator"
"""Numba asks them in this order where to keep the compiled code of a function."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""One thread: sums over several depend on how many there are."""


def prepare_environment() -> None:
    """Set what Numba and Torch read once, when they are imported."""
    for variable in THREAD_VARIABLES:
        os.environ[variable] = "1"
    if "numba" not in sys.modules:
        os.environ["NUMBA_CACHE_LOCATOR_CLASSES"] = LOCATORS
        os.environ["NUMBA_SLP_VECTORIZE"] = "1"


prepare_environment()

import numba  # noqa: E402  (after the environment is set)
from numba.core import event  # noqa: E402

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "boundscheck": False}


def _compile(function: Function, **options: Any) -> Function:  # noqa: ANN401  (options that Numba's types leave out)
    compile_with: Any = numba.njit(**_OPTIONS, **options)
    result: Function = compile_with(function)
    return result


@contextmanager
def reporting_compiled(progressed: Callable[[], None]) -> Iterator[None]:
    """Call this whenever Numba begins or ends to compile a function."""

    class _Listener(event.Listener):
        def on_start(self, _: object) -> None:
            progressed()

        def on_end(self, _: object) -> None:
            progressed()

    with event.install_listener("numba:compile", _Listener()):
        yield


def compiled(function: Function) -> Function:
    """Compile for the machine, strict IEEE order, GIL released, cached on disk."""
    return _compile(function)


def inlined(function: Function) -> Function:
    """A compiled function that is put in the place of its call: passing a named tuple copies it."""
    return _compile(function, forceinline=True)


def bare(function: Function) -> Function:
    """As `compiled`, for loops that make no array: without reference counts.

    Counting the references of the arrays of a named tuple in every helper took three quarters of the join's time. What
    is called from such a function must be bare too.
    """
    return _compile(function, _nrt=False)


def bare_inlined(function: Function) -> Function:
    """A bare function that is put in the place of its call: passing a named tuple copies it."""
    return _compile(function, _nrt=False, forceinline=True)
