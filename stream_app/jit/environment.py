"""The environment that Numba and Torch must find when they are imported; Numba is imported here.

All other modules that import Numba import this module, or one that does, before.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_LOCATORS = "stream_app.jit.cache.SourcesCacheLocator,UserWideCacheLocator,IPythonCacheLocator"
"""Numba asks these classes, in this order, where to keep the compiled code of a function."""

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Each is set to one thread: the result of a sum over several threads depends on how many there are."""


def _prepare() -> None:
    """Set the variables that Numba and Torch read once, when they are imported."""
    for variable in _THREAD_VARIABLES:
        os.environ[variable] = "1"
    if "numba" not in sys.modules:
        os.environ["NUMBA_CACHE_LOCATOR_CLASSES"] = _LOCATORS
        os.environ["NUMBA_SLP_VECTORIZE"] = "1"


@contextmanager
def _hidden(*packages: str) -> Iterator[None]:
    """Let imports of these packages fail inside, unless they are imported already."""
    hidden = [package for package in packages if package not in sys.modules]
    sys.modules |= dict.fromkeys(hidden)  # type: ignore[arg-type]  # None: the import system raises an error
    try:
        yield
    finally:
        for package in hidden:
            del sys.modules[package]


_prepare()

with _hidden("coverage", "scipy"):  # Numba imports both if they are installed, which takes 0.3 s, and uses neither here
    import numba.np.arraymath  # noqa: F401
