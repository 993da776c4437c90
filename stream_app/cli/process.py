"""Logging, and errors as lines with an exit status, for every command of this project."""

import contextlib
import gc
import io
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn

import click

from stream_app.errors import ArebaError, ConfigurationError
from stream_app.log_lines import JsonFormatter
from stream_app.terminal import LogFormatter, say

_LOG_LEVEL_VARIABLE = "AREBA_LOG_LEVEL"
_LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


def configure_logging() -> None:
    """Log to standard error at the level that `AREBA_LOG_LEVEL` names (`INFO` by default).

    Raises:
        ConfigurationError: The variable does not name a level.
    """
    level = os.environ.get(_LOG_LEVEL_VARIABLE, "INFO").upper()
    if level not in _LOG_LEVELS:
        raise ConfigurationError(
            f"{_LOG_LEVEL_VARIABLE}: there is no level {level!r}; the levels are {', '.join(_LOG_LEVELS)}"
        )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter(_LOG_FORMAT))
    logging.basicConfig(level=level, handlers=[handler])


def log_as_json() -> None:
    """Write each further line of the log as one JSON object."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(JsonFormatter())


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Pause garbage collection: what imports make lasts, and collections would visit it again and again, for 0.3 s."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextlib.contextmanager
def without_client_log() -> Iterator[None]:
    """Silence the log lines of Kafka's clients, for a command whose own output shows their problems."""
    logger = logging.getLogger("areba.kafka")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def run_command(command: click.Command) -> None:
    """Run a command on the arguments of this process, and exit; errors are reported as by `exit_status_of`.

    A character that the encoding of standard output lacks is written as an escape: a name must not end a command.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(exit_status_of(command))


def exit_status_of(call: Callable[[], None]) -> int:
    """Make a call, report its error on standard error, and return the exit status.

    An `ArebaError` becomes its lines and its exit status. A file that cannot be read or written becomes one line and
    exit status 2; the traceback is logged at level `DEBUG`.
    """
    try:
        call()
    except ArebaError as error:
        for line in error.lines:
            say(line, err=True)
        return error.exit_code
    except OSError as error:
        logging.getLogger("areba").debug("traceback of the error:", exc_info=True)
        say(f"{error.filename or 'areba'}: {error.strerror or error}", err=True)
        return ConfigurationError.exit_code
    return 0


def end_process(status: int) -> NoReturn:
    """End the process at once with this exit status, after its output is written.

    Threads of Kafka's clients may still be in a call, or be about to call Python. If the interpreter took away what
    they use, as it does at a usual end, they would crash the process.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # a closed pipe
            stream.flush()
    os._exit(status)
