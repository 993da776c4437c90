"""The command `python -m ops.local_kafka up | status | down`."""

import shutil
import sys
from contextlib import ExitStack
from pathlib import Path

import click

from ops.local_kafka import processes
from ops.local_kafka.cluster import LocalKafka, prepare_plan
from ops.local_kafka.jars import KAFKA_VERSION, file_lock, kafka_jars
from ops.local_kafka.plan import HOST, ClusterPlan
from ops.local_kafka.processes import READY_TIMEOUT_S
from stream_app.cli.process import run_command
from stream_app.terminal import say

DEFAULT_FOLDER = Path(".local/kafka")

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_FOLDER,
    show_default=True,
    help="where the cluster keeps its data and its process ids",
)


@click.group(help=f"A local Apache Kafka {KAFKA_VERSION} on {HOST}, from its published jars.")
def main() -> None:
    """Start, show and stop a local Kafka cluster."""


@main.command()
@click.option("--brokers", type=click.IntRange(1, 3), default=1, show_default=True, help="number of brokers")
@folder_option
def up(brokers: int, folder: Path) -> None:
    """Start a cluster, or say that it already runs; it runs until `down`."""
    library = kafka_jars()
    folder = folder.absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with file_lock(folder / "lock", READY_TIMEOUT_S):
        plan = ClusterPlan.load(folder)
        pids = [processes.broker_pid(folder, broker.node) for broker in plan.brokers] if plan else []
        pid = next(filter(None, pids), None)
        if plan and pid and len(plan.brokers) == brokers:
            running = f"Apache Kafka {processes.version_of(pid)} already runs in {folder}, at {plan.bootstrap_servers}"
            say(f"{running}, with the data that it has", err=True)  # standard output may be filtered for `export`
        else:
            kafka = LocalKafka(folder, prepare_plan(folder, brokers), library, processes.FRUGAL_JVM, temporary=False)
            with ExitStack() as undo:
                undo.callback(kafka.stop)
                kafka.launch()
                undo.pop_all()
    _report(folder)


@main.command()
@folder_option
def status(folder: Path) -> None:
    """Report which brokers run; exit with status 1 unless all do."""
    sys.exit(0 if _report(folder.absolute()) else 1)


@main.command()
@click.option("--delete", is_flag=True, help="also remove the folder with all data")
@folder_option
def down(*, delete: bool, folder: Path) -> None:
    """Stop the cluster; its data stays in the folder."""
    folder = folder.absolute()
    plan = ClusterPlan.load(folder)
    if plan is None:
        say(f"No cluster in {folder}")
        return
    with file_lock(folder / "lock", READY_TIMEOUT_S):
        processes.stop_all(folder, [broker.node for broker in plan.brokers], at_once=delete)
    if delete:
        shutil.rmtree(folder)
    say(f"Stopped; {'its folder is removed' if delete else f'its data stays in {folder}'}")


def _report(folder: Path) -> bool:
    """Print a line for each broker and how to use the cluster; return whether all brokers run."""
    plan = ClusterPlan.load(folder)
    if plan is None:
        say(f"No cluster in {folder}")
        return False
    pids = {broker: processes.broker_pid(folder, broker.node) for broker in plan.brokers}
    for broker, pid in pids.items():
        state = f"runs (process {pid})" if pid else "is stopped"
        say(f"broker {broker.node} {state}, {HOST}:{broker.port}, log {folder / f'broker-{broker.node}.log'}")
    if any(pids.values()):
        say(f"export AREBA__KAFKA__BOOTSTRAP_SERVERS={plan.bootstrap_servers}")
    return all(pids.values())


if __name__ == "__main__":
    run_command(main)
