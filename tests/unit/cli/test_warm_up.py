"""Compiling ahead: nothing is left for a running worker to compile, and a cache that is read-only is enough."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stream_app.cli.commands.compile import every_method
from stream_app.cli.warm_up import cache_lock
from stream_app.errors import ConfigurationError
from stream_app.jit import cache

PROGRAM = """
from numba.core.caching import Cache
from stream_app.cli.commands.compile import every_method
from stream_app.cli.warm_up import warm_up
from stream_app.testing import InProcess

def recorded(asked, signature, context, load=Cache.load_overload):
    if "/stream_app/" in asked._py_func.__code__.co_filename:
        print(asked._py_func.__qualname__)
    return load(asked, signature, context)

config = every_method({corrections!r})
warm_up(config.task_settings())
Cache.load_overload = recorded
application = InProcess(config)
for number in range(300):
    application.send_example("any", f"a-{{number}}", [number % 2, 0.5])
    if number % 3:
        application.send_label("any", f"a-{{number}}", number % 5 == 0)
    if number % 100 == 50:
        application.run()
        application.crash()
application.run()
assert len(application.predictions()) == 300
fewer = config.model_copy(update={{"learners": dict(list(config.learners.items())[:1])}})
for other in (fewer, config):
    application.config = other.model_copy(update={{"application": application.config.application}})
    application.crash()
    application.send_example("any", f"late-{{len(other.learners)}}", [1.0, 0.5])
    application.run()
application.erase("any", ["a-1", "late-1"])
application.run()
assert len(application.predictions()) == 302
"""


@pytest.mark.slow(5)
@pytest.mark.parametrize("corrections", ["first", "correct"])
def test_a_worker_that_is_warm_asks_the_compiler_for_nothing(corrections: str) -> None:
    """A function that is first called in a batch or a restore would be compiled there, for seconds."""
    program = PROGRAM.format(corrections=corrections)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=500)
    assert done.stdout.split() == []


def test_every_method_is_compiled() -> None:
    """An image is built once, for all configurations without learners of the user's own."""
    from stream_app.learners.registry import METHODS  # noqa: PLC0415  (imports compiled code)

    assert {learner.method for learner in every_method().learners.values()} == set(METHODS)


def test_a_cache_that_is_read_only_is_used_and_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an image, the cache belongs to root, and the file system can be read only."""
    monkeypatch.setenv("AREBA_CACHE_DIR", str(tmp_path))
    base = cache.base_folder()
    monkeypatch.setattr(cache, "is_read_only", lambda _: True)
    monkeypatch.setattr("stream_app.cli.warm_up.is_read_only", lambda _: True)
    with cache_lock(lambda: False) as is_held:
        assert is_held
    assert list(base.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="gives the folder to another user")
def test_a_cache_of_another_user_is_refused_unless_it_is_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of the folder can run code as this user; root can do that anyway."""
    monkeypatch.setenv("AREBA_CACHE_DIR", str(tmp_path))
    folder = cache.base_folder()
    monkeypatch.setattr(os, "geteuid", lambda: 10_001)
    assert cache.base_folder() == folder
    os.chown(folder, 10_002, 10_002)
    with pytest.raises(ConfigurationError):
        cache.base_folder()
