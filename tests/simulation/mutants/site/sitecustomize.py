# ruff: noqa: INP001  (no package: Python looks for a file of this name)
"""Import one file in a changed form; Python runs this module at its start if `mutants/mutant.py` set the path.

The file itself does not change, nothing is written next to it, and every process that this process starts has the same
change.
"""

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType


class _Changed(SourceFileLoader):
    """A loader that takes the source from elsewhere, and no compiled file."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002  (the name has one file)
        """Compile the changed source under the name of the file."""
        return compile(Path(CHANGED).read_bytes(), self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """A finder for this one file; all other files are left to the other finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find this one file."""
        if fullname.rpartition(".")[2] != Path(FILE).stem:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or not Path(FILE).samefile(spec.origin):
            return None
        spec.loader = _Changed(fullname, spec.origin)
        return spec


FILE, _, CHANGED = os.environ.get("AREBA_TEST_MUTATION", "").partition(os.pathsep)
if FILE:
    sys.meta_path.insert(0, _Finder())
