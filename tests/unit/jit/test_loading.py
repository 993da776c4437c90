"""Compiled code that comes from the cache must also be there for a function that has to be compiled."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stream_app.jit import cache
from stream_app.jit.compiler import compiled

_CALLED = """
from stream_app.jit.compiler import {decorator}

@{decorator}
def one_more(number):
    return number + 1
"""

_CALLER = """
from called import one_more
from stream_app.jit.compiler import compiled

@compiled
def caller(number):
    return {factor} * one_more(number)

print(caller(1), sum(one_more.stats.cache_hits.values()), sum(one_more.stats.cache_misses.values()))
"""


def _run(folder: Path, factor: int) -> str:
    """Run a caller in a new process: return its result, and how often the called function was cached and compiled."""
    file = folder / "caller.py"
    file.write_text(_CALLER.format(factor=factor))
    environment = {**os.environ, "AREBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": f"{Path.cwd()}:{folder}"}
    done = subprocess.run(
        [sys.executable, str(file)], env=environment, capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout.strip()


@pytest.mark.parametrize("decorator", ["compiled", "inlined", "compiled_without_refcounts"])
def test_a_function_from_the_cache_is_compiled_into_a_new_one(tmp_path: Path, decorator: str) -> None:
    """After an update, some functions come from the cache, and others that call them are compiled."""
    (tmp_path / "called.py").write_text(_CALLED.format(decorator=decorator))
    assert _run(tmp_path, 1) == "2 0 1"
    assert _run(tmp_path, 2) == "4 1 0"


@pytest.mark.parametrize("is_writable", [True, False])
def test_what_is_compiled_is_saved_where_the_cache_is_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_writable: bool
) -> None:
    """In an image, the cache belongs to root, and the file system can be read only: the code then stays in memory."""
    monkeypatch.setattr(cache, "folder_of", lambda _: tmp_path)
    monkeypatch.setattr("stream_app.jit.loading.is_read_only", lambda _: not is_writable)

    @compiled
    def one_more(number: int) -> int:
        return number + 1

    assert one_more(1) == 2
    assert any(tmp_path.iterdir()) == is_writable
