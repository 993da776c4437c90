"""The command: it prints each command of the tutorial before it runs it."""

import contextlib
import json
import os
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import click

from ops import broker as brokers
from ops.demo_csv.payments import PAYMENTS, write_payments
from ops.workers import ProcessWorkers
from stream_app.cli.process import configure_logging, run_command
from stream_app.errors import ArebaError
from stream_app.terminal import say

FOLDER = Path(".local/demo-csv")

FILE, CONFIGURATION = "payments.csv", "my.yaml"

COLUMNS = "--id transaction --time date --label is_fraud --positive yes --label-time known_at"

TIMEOUT_S = 300.0
"""Time until everything is processed: the first run compiles."""

POLL_S = 1.0

LOOKED_AT = 1_000
"""The newest predictions among which an alert is looked for."""


class _Commands:
    """Runs commands in the folder of the demo, and prints them."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment

    def run(self, line: str, into: str | None = None) -> None:
        """Run a command; write its output to a file if one is named.

        Raises:
            ArebaError: The command failed.
        """
        say(f"$ {line}{f' > {into}' if into else ''}")
        output = self.output(line, shows=into is None)
        if into is not None:
            (self._folder / into).write_text(output, encoding="utf-8")
            for text in output.splitlines():
                say(f"  {text}")

    def output(self, line: str, *, shows: bool = False, also: Sequence[int] = ()) -> str:
        """Run a command and return its output, or print it; 0 and the statuses in `also` are no failure.

        Raises:
            ArebaError: The command failed.
        """
        module, *arguments = shlex.split(line)
        name = {"areba": "stream_app.cli", "areba-replay": "stream_app.producers.cli"}[module]
        done = subprocess.run(
            [sys.executable, "-m", name, *arguments],
            cwd=self._folder,
            env=self._environment,
            stdout=None if shows else subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode not in {0, *also}:
            raise ArebaError(f"{line}: ended with status {done.returncode}")
        return done.stdout or ""


def main(bootstrap_servers: str | None, payments: int, *, dashboard: bool) -> None:
    """Run the demo.

    Raises:
        ArebaError: There is no Kafka, or a command failed.
    """
    with ExitStack() as stack:
        chosen = stack.enter_context(brokers.choose(bootstrap_servers, tell=say))
        if chosen.bootstrap_servers is None:
            raise ArebaError("this demo needs a Kafka: see above, or give --bootstrap-servers")
        name = f"demo-csv-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        folder = FOLDER.absolute() / name
        folder.mkdir(parents=True)
        environment = {
            **os.environ,
            "AREBA__KAFKA__BOOTSTRAP_SERVERS": chosen.bootstrap_servers,
            "AREBA__KAFKA__TOPIC_PREFIX": f"{name}-",
            "AREBA__APPLICATION__ID": name,
        }
        commands = _Commands(folder, environment)
        write_payments(folder / FILE, payments)
        say(f"{folder / FILE}: {payments:,} payments")
        commands.run(f"areba-replay describe {FILE} {COLUMNS}", into=CONFIGURATION)
        commands.run(f"areba topics create -c {CONFIGURATION}")
        workers = ProcessWorkers(folder / CONFIGURATION, folder, environment)
        stack.callback(workers.stop)
        say(f"$ areba run -c {CONFIGURATION} &")
        workers.start("worker-1")
        commands.run(f"areba-replay run {FILE} -c {CONFIGURATION} {COLUMNS}")
        _wait(commands, workers)
        commands.run(f"areba watch -c {CONFIGURATION} --once")
        commands.run(f"areba tail predictions -c {CONFIGURATION} --limit 1")
        commands.run(f"areba explain payments {_last_alert(commands)} -c {CONFIGURATION}")
        commands.run(f"areba verify -c {CONFIGURATION}")
        if dashboard:
            say("The dashboard runs until Ctrl-C:")
            with contextlib.suppress(KeyboardInterrupt):
                commands.run(f"areba dashboard -c {CONFIGURATION}")


def _last_alert(commands: _Commands) -> str:
    """Return the id of the last payment that was predicted as fraud.

    Raises:
        ArebaError: There is none.
    """
    lines = commands.output(f"areba tail predictions -c {CONFIGURATION} --limit {LOOKED_AT}").splitlines()
    alerts = [value["id"] for line in lines if (value := json.loads(line)["value"])["predicted_class"] == 1]
    if not alerts:
        raise ArebaError(f"none of the newest {LOOKED_AT} payments was predicted as fraud")
    return str(alerts[-1])


def _wait(commands: _Commands, workers: ProcessWorkers) -> None:
    """Wait until the worker has processed everything.

    Raises:
        ArebaError: The worker ended, or did not finish in time.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if problem := workers.failed():
            raise ArebaError(problem)
        found = json.loads(commands.output(f"areba inspect -c {CONFIGURATION} --json", also=(1,)))  # 1: a problem
        if all(task[side]["lag"] == 0 for task in found["tasks"] for side in ("examples", "labels")):
            return
        time.sleep(POLL_S)
    raise ArebaError(f"the worker has not processed everything after {TIMEOUT_S:.0f} s")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--bootstrap-servers", help="Brokers of a running Kafka; by default a local Kafka is started.")
@click.option("--payments", type=click.IntRange(100), default=PAYMENTS, show_default=True, help="Rows of the file.")
@click.option(
    "--dashboard/--no-dashboard", default=None, help="Show the dashboard at the end.  [default: at a terminal]"
)
def demo_csv(bootstrap_servers: str | None, payments: int, dashboard: bool | None) -> None:
    """Show the way of a file of one's own: describe it, send it, learn from it, verify."""
    configure_logging()
    main(bootstrap_servers, payments, dashboard=sys.stdout.isatty() if dashboard is None else dashboard)


if __name__ == "__main__":
    run_command(demo_csv)
