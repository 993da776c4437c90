"""How compiled code is kept in the cache and loaded from it: without what only the compiler needs.

Numba loads a function as if the next step were to compile it into another function: it parses the function's code in
LLVM's language, and registers its whole library of functions. A worker that starts does neither, and needs half of the
CPU time to load its code.
"""

import os
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.runtime.nrt import rtsys

_PACKAGE = str(Path(__file__).parents[1])

_UNPARSED = "unparsed"
"""The kind of code that only a `Library` loads; Numba itself knows "object" and "bitcode"."""


class Library(JITCodeLibrary):
    """The machine code of a function, whose code in LLVM's language is parsed when another function needs it."""

    _unparsed: bytes | None = None
    _parsed: Any = None

    @property
    def _shared_module(self) -> Any:  # noqa: ANN401  (LLVM's type)
        if self._unparsed is not None:
            self._parsed, self._unparsed = llvm.parse_bitcode(self._unparsed), None
        return self._parsed

    @_shared_module.setter
    def _shared_module(self, module: Any) -> None:  # noqa: ANN401  (LLVM's type)
        self._parsed = module

    @classmethod
    def _unserialize(cls, codegen: Any, state: tuple[str, str, Any]) -> Any:  # noqa: ANN401  (Numba's types)
        name, kind, code = state
        if kind != _UNPARSED:
            numba: Any = super()
            return numba._unserialize(codegen, state)  # noqa: SLF001  (Numba calls this method)
        machine_code, unparsed, symbols = code
        library = codegen.create_library(name)
        library.enable_object_caching()
        library._set_compiled_object(machine_code)  # noqa: SLF001  (as Numba's own method does)
        library._unparsed = unparsed  # noqa: SLF001
        library._finalize_final_module()  # noqa: SLF001
        codegen._engine._defined_symbols |= symbols  # noqa: SLF001
        return library


JITCPUCodegen._library_class = Library  # noqa: SLF001  (Numba has no hook for this)


class _Results(CompileResultCacheImpl):
    """Keeps, beside the code of a function, the names of its symbols, which Numba takes from the parsed code."""

    def reduce(self, compiled: Any) -> tuple[object, ...]:  # noqa: ANN401  (Numba's type)
        (name, _, (machine_code, unparsed)), *others = compiled._reduce()  # noqa: SLF001  (as Numba does)
        module = compiled.library._shared_module  # noqa: SLF001
        symbols = frozenset(
            symbol.name
            for symbols in (module.functions, module.global_variables)
            for symbol in symbols
            if not symbol.is_declaration
        )
        return (name, _UNPARSED, (machine_code, unparsed, symbols)), *others


class CompiledCode(FunctionCache):
    """The compiled code of a function in the cache."""

    _impl_class = _Results

    def load_overload(self, signature: object, target: Any) -> Any:  # noqa: ANN401  (Numba's types)
        """Load the code for a signature; return None if it is missing.

        A function of another package may use symbols that only Numba's registration adds.
        """
        numba: Any = super()
        if not self._py_func.__code__.co_filename.startswith(_PACKAGE):
            return numba.load_overload(signature, target)
        rtsys.initialize(target)
        with numba._guard_against_spurious_io_errors():  # noqa: SLF001  (as Numba's own method does)
            return numba._load_overload(signature, target)  # noqa: SLF001

    def save_overload(self, signature: object, compiled: object) -> None:
        """Save code, unless the cache is read-only: then it stays in memory, where Numba would raise an error."""
        if os.access(self.cache_path, os.W_OK):
            numba: Any = super()
            numba.save_overload(signature, compiled)
