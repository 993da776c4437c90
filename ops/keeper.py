"""Nothing that a command starts outlives it, whatever way it ends: Ctrl-C, SIGTERM, SIGKILL.

Handlers and `finally` do not run at SIGKILL. So beside each process, and each temporary folder, stands a small shell
that reads from a pipe whose other end only we hold: a line means that all is well, its end that we are gone. (Linux'
PR_SET_PDEATHSIG would fire at the end of the thread that had started the process, not of ours.)

`make` is not us: SIGKILL of `make` leaves the command that it runs.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from multiprocessing import parent_process
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

_SCRIPT = """
if read -r _; then exit 0; fi
if [ "$1" -gt 0 ]; then kill -KILL "-$1"; fi
if [ -n "$2" ]; then sleep 0.2; rm -rf -- "$2"; sleep 2; rm -rf -- "$2"; fi
"""
"""A folder is removed twice: whoever writes to it is being killed at that moment."""


class Keeper:
    """Kills a session, and removes a folder, when this process ends; unless it is released before.

    Args:
        session: Process that leads it; 0: none.
        folder: To be removed with all that is in it; None: none.
    """

    def __init__(self, session: int = 0, folder: Path | None = None) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "keeper", str(session), str(folder.absolute()) if folder else ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def release(self) -> None:
        """All is well: it ends and does nothing. Does nothing the second time."""
        if self._shell.returncode is None:
            self._shell.communicate(b"\n")


class KeptProcess(subprocess.Popen[Any]):
    """A process in a session of its own (a Ctrl-C at the terminal is for us) that does not outlive this one."""

    def __init__(self, command: list[str], **options: Any) -> None:  # noqa: ANN401  (those of Popen)
        super().__init__(command, start_new_session=True, **options)
        self._keeper = Keeper(self.pid)

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        return self._released(super().poll())

    def wait(self, timeout: float | None = None) -> int:
        """Until it ends; its exit status."""
        status = super().wait(timeout)
        self._released(status)
        return status

    def _released(self, status: int | None) -> int | None:
        if status is not None:
            self._keeper.release()
        return status

    def end(self, timeout_s: float) -> int:
        """SIGTERM, and SIGKILL to its session if it does not end in time; the exit status."""
        self.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(timeout_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        return self.wait()


@contextlib.contextmanager
def unless_interrupted(folder: Path) -> Iterator[Path]:
    """Keep a folder that the block fills, also where the block fails; not where it is interrupted or killed."""
    keeper = Keeper(folder=folder)
    try:
        yield folder
    except Exception:
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        keeper.release()


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Make a folder that is gone after the block, and after us."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    keeper = Keeper(folder=folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        keeper.release()


def end_with_parent() -> None:
    """Have this process, a child of `multiprocessing`, end when its parent has ended, even by SIGKILL.

    Children wait for work on a pipe of which they hold both ends: they do not see that nobody writes to it any more.
    """
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent,), name="parent", daemon=True).start()


def _exit_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
