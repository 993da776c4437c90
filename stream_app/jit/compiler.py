"""The decorators for compiled code, and the environment that Numba and Torch must find when they are imported.

All other modules that compile import the decorators from here, so that the environment is set first.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

_LOCATORS = "stream_app.jit.cache.SourcesCacheLocator,UserWideCacheLocator,IPythonCacheLocator"
"""Numba asks these classes, in this order, where to keep the compiled code of a function."""

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Each is set to one thread: the result of a sum over several threads depends on how many there are."""


def prepare_environment() -> None:
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


prepare_environment()

with _hidden("coverage", "scipy"):  # Numba imports both if they are installed, which takes 0.3 s, and uses neither here
    import numba
    import numba.np.arraymath
    from numba.core import event

from stream_app.jit.loading import CompiledCode  # noqa: E402  (Numba must be imported first, see above)

_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
    "no_cfunc_wrapper": True,
}


def _compile(function: Function, **options: Any) -> Function:  # noqa: ANN401  (options that Numba's types leave out)
    compile_with: Any = numba.njit(**_OPTIONS, **options)
    result: Function = _cached_when_compiled(compile_with(function))
    return result


def _cached_when_compiled(dispatcher: Any) -> Any:  # noqa: ANN401  (Numba's type, which it does not export)
    """Make a dispatcher look for its cache only when it is first called or compiled in.

    To look for it takes 0.5 ms, and of the functions that a process imports, it uses a tenth.
    """
    compile_now = dispatcher.compile
    cache_of: Any = CompiledCode

    def compile_first(signature: object) -> object:
        dispatcher._cache = cache_of(dispatcher.py_func)  # noqa: SLF001  (as Numba's `enable_caching` does)
        dispatcher.compile = compile_now
        return compile_now(signature)

    dispatcher.compile = compile_first
    return dispatcher


def _compile_inlined(function: Function, **options: Any) -> Function:  # noqa: ANN401  (as above)
    """Compile a function without the wrapper through which Python calls it: a third of the time of compiling.

    A call from Python would jump to address zero, so it is refused.
    """
    dispatcher: Any = _compile(function, forceinline=True, no_cpython_wrapper=True, **options)

    def add_overload(result: Any) -> None:  # noqa: ANN401  (Numba's type, which it does not export)
        dispatcher.overloads[tuple(result.signature.args)] = result  # not in the table that calls from Python use

    def refuse(*_: object, **__: object) -> NoReturn:
        raise TypeError(f"{dispatcher.py_func.__qualname__} can only be called by compiled code")

    dispatcher.add_overload = add_overload
    dispatcher._compile_for_args = refuse  # noqa: SLF001  (called for a signature that has no wrapper)
    result: Function = dispatcher
    return result


@contextmanager
def reporting_compiled(progressed: Callable[[], None]) -> Iterator[None]:
    """Call `progressed` whenever Numba begins or finishes compiling a function."""

    class _Listener(event.Listener):
        def on_start(self, _: object) -> None:
            progressed()

        def on_end(self, _: object) -> None:
            progressed()

    with event.install_listener("numba:compile", _Listener()):
        yield


def compiled(function: Function) -> Function:
    """Compile a function for this machine: strict IEEE order, the GIL released, the result cached on disk."""
    return _compile(function)


def inlined(function: Function) -> Function:
    """Compile a function and inline every call to it, which saves the copy of a named tuple that a call makes."""
    return _compile_inlined(function)


def compiled_without_refcounts(function: Function) -> Function:
    """Compile a function that allocates no array, without the code that counts references to arrays.

    Numba counts the references to every array of a named tuple in every helper that takes the tuple; in the join, the
    counting took three quarters of the time. A function that is called from such a function must be compiled without
    reference counts too.
    """
    return _compile(function, _nrt=False)


def inlined_without_refcounts(function: Function) -> Function:
    """Compile a function as `compiled_without_refcounts` does, and inline every call to it."""
    return _compile_inlined(function, _nrt=False)
