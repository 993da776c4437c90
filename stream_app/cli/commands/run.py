"""`areba run`."""

import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import click

from stream_app import __version__, log_lines
from stream_app.cli.commands.options import CONFIG_OPTION
from stream_app.cli.machine_memory import return_freed_memory
from stream_app.cli.process import end_process, exit_status_of, importing, log_as_json
from stream_app.cli.restart import ProcessRestarts, restart_process
from stream_app.config import load
from stream_app.errors import ConfigurationError, RestartNeededError


@click.command()
@CONFIG_OPTION
@click.option("--restarted-at", multiple=True, type=float, hidden=True, help="A time of a restart by an error.")
@click.option("--outage-at", multiple=True, type=float, hidden=True, help="A time of a restart by an outage.")
@click.option("--was-fenced", is_flag=True, hidden=True, help="The last restart came after the worker was fenced.")
@click.option("--adopt", "adopts", is_flag=True, help="Accept records of other writers in the output topics.")
def run(path: Path, restarted_at: Sequence[float], outage_at: Sequence[float], was_fenced: bool, adopts: bool) -> None:
    """Run one worker of the group, until SIGTERM or Ctrl-C.

    The exit status is 0 after a clean stop; 2 if a setting is wrong or the broker refuses a request; 3 if no task can
    be restored; 4 after too many restarts; 5 if another worker has the same application.instance.

    \b
    Examples:
      areba run -c my.yaml
      AREBA__APPLICATION__INSTANCE=worker-2 areba run -c my.yaml
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    faulthandler.enable(sys.__stderr__ or sys.stderr)
    end_process(exit_status_of(lambda: _run(path, restarted_at, outage_at, was_fenced=was_fenced, adopts=adopts)))


def _run(
    path: Path, restarted_at: Sequence[float], outage_at: Sequence[float], *, was_fenced: bool, adopts: bool
) -> None:
    return_freed_memory()
    with importing():
        from stream_app.cli.start import run_worker  # noqa: PLC0415  (Numba takes a second; --help should not)

    config = load(path, os.environ)
    should_stop = _stop_on_signals()
    if config.worker.log_format == "json":
        log_as_json()
    log_lines.STARTED.log(
        logging.getLogger("areba"),
        version=__version__,
        application=config.application.id,
        instance=config.application.instance,
        brokers=config.kafka.bootstrap_servers,
    )
    restarts = ProcessRestarts(tuple(restarted_at), tuple(outage_at))
    try:
        run_worker(config, should_stop, restarts=restarts, was_fenced=was_fenced, adopts=adopts)
    except ConfigurationError as error:
        from stream_app.cli.clients import with_source  # noqa: PLC0415  (as above)

        error.lines = tuple(with_source(line, path) for line in error.lines)
        raise
    except RestartNeededError as error:
        if should_stop():
            raise
        options = ("--adopt",) if adopts else ()
        restart_process((str(path), *options), restarts, config.worker.max_restarts, should_stop, error)


def _stop_on_signals() -> Callable[[], bool]:
    """Handle SIGTERM and SIGINT, and return whether one has come; a second signal ends the process at once."""
    asked = threading.Event()

    def ask(number: int, _: FrameType | None) -> None:
        asked.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)
    return asked.is_set
