"""Processes and folders that end with this process, even if Ctrl-C, SIGTERM or SIGKILL ends it.

SIGKILL runs no handlers and no `finally`. So each process, and each temporary folder, has a small shell that reads from
a pipe whose other end only this process holds. A line from the pipe means that there is nothing to do; the end of the
pipe means that this process has ended. (Linux' PR_SET_PDEATHSIG fires when the thread that started a process ends, not
when the process of the thread does.)

SIGKILL of `make` does not end the command that `make` runs.
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
"""The folder is removed twice, because processes that are being killed may still write to it."""


class Keeper:
    """A shell that kills a session and removes a folder when this process ends, unless it is released before.

    Args:
        session: The id of the process that leads the session; 0: no session.
        folder: The folder to remove with its contents; None: no folder.
    """

    def __init__(self, session: int = 0, folder: Path | None = None) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "keeper", str(session), str(folder.absolute()) if folder else ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._lock = threading.Lock()  # several threads may find at once that their process has ended

    def release(self) -> None:
        """End the shell without any effect; does nothing the second time."""
        with self._lock:
            if self._shell.returncode is None:
                self._shell.communicate(b"\n")


class KeptProcess(subprocess.Popen[Any]):
    """A process that ends with this one. It has a separate session, so that Ctrl-C does not reach it."""

    def __init__(self, command: list[str], **options: Any) -> None:  # noqa: ANN401  (those of Popen)
        super().__init__(command, start_new_session=True, **options)
        self._keeper = Keeper(self.pid)

    def poll(self) -> int | None:
        """Return the exit status; None while the process runs."""
        return self._released(super().poll())

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process and return its exit status."""
        status = super().wait(timeout)
        self._released(status)
        return status

    def _released(self, status: int | None) -> int | None:
        if status is not None:
            self._keeper.release()
        return status

    def end(self, timeout_s: float) -> int:
        """Send SIGTERM, and SIGKILL to the session if the process does not end in time; return the exit status."""
        self.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(timeout_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        return self.wait()


@contextlib.contextmanager
def unless_interrupted(folder: Path) -> Iterator[Path]:
    """Remove a folder that the block fills if the block is interrupted or killed, but not if it merely fails."""
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
    """Create a folder that is removed after the block, or when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    keeper = Keeper(folder=folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        keeper.release()


def end_with_parent() -> None:
    """Make this process, a child of `multiprocessing`, end when its parent ends, even if SIGKILL ends that.

    Children wait for work on a pipe of which they hold both ends, so they do not notice that the parent has ended.
    """
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent,), name="parent", daemon=True).start()


def _exit_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
