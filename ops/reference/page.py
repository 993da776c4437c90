"""The page: its sections in order."""

from collections.abc import Iterator
from pathlib import Path

from ops.reference.commands import commands_section
from ops.reference.promises import promises_section
from ops.reference.settings import settings_section
from ops.reference.text import table
from ops.reference.topics import records_section, topics_section
from ops.reference.worker import exit_statuses_section, log_events, metrics_section, reasons_section, words_section
from stream_app.admin.problems import ProblemCode
from stream_app.cli.main import cli as areba_command
from stream_app.errors import ErrorCode
from stream_app.producers.cli import main as replay_command
from stream_app.task_state import TaskState
from stream_app.verify.results import Code

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"


def _beginning() -> Iterator[str]:
    """Yield the title, links to the sections, and the first section."""
    yield "# Reference\n"
    yield "`python -m ops.reference` writes this page from the code; do not edit it.\n"
    yield (
        "[What you may rely on](#what-you-may-rely-on) · [Settings](#settings) · [Commands](#commands) · "
        "[Exit statuses](#exit-statuses) · [Error codes](#error-codes) · "
        "[Findings of verify](#findings-of-verify) · "
        "[Problems that inspect finds](#problems-that-inspect-finds) · [Task states](#task-states) · "
        "[Metrics](#metrics) · [Log lines](#log-lines) · [Dead-letter reasons](#dead-letter-reasons) · "
        "[Topics](#topics) · [Records](#records)\n"
    )
    yield "## What you may rely on\n"
    yield from promises_section()


def page() -> str:
    """Return the complete page."""
    lines = [
        *_beginning(),
        "## Settings\n",
        (
            "[ops/areba.yaml](../ops/areba.yaml) is a complete configuration file. [changes.md](changes.md) says "
            "what may change while an application runs.\n"
        ),
        *settings_section(),
        "## Commands\n",
        "Commands with the option `-c`, `--config` read this configuration file; environment variables override it.\n",
        "### areba\n",
        *commands_section("areba", areba_command),
        "### areba-replay\n",
        *commands_section("areba-replay", replay_command),
        "## Exit statuses\n",
        *exit_statuses_section(),
        "## Error codes\n",
        (
            "The problem of a parked task, and each error with exit status 3, ends with one of these codes in square "
            "brackets. `areba inspect --json` and a log in JSON have the code as field `code`.\n"
        ),
        *words_section("code", ErrorCode),
        "## Findings of verify\n",
        "A line of the report of `areba verify` that says what is wrong begins with one of these codes.\n",
        *words_section("code", Code),
        "## Problems that inspect finds\n",
        "A line below the table of `areba inspect` begins with one of these codes ([more](operations.md#watch)).\n",
        *words_section("code", ProblemCode),
        "## Task states\n",
        "The words are the same in the log, `/metrics`, `/ready` and `areba inspect`.\n",
        *words_section("state", TaskState),
        "## Metrics\n",
        (
            "`/metrics` of a worker with `worker.http_port` has them in Prometheus' format. Counters of a task begin "
            "at 0 when the group gives the task to the worker. [Alerts](operations.md#alerts) say what to watch.\n"
        ),
        *metrics_section(),
        "## Log lines\n",
        "A line of the worker's log begins with one of these words; `key=value` pairs follow.\n",
        *table(("line", "level", "meaning"), ((f"`{name}`", level, text) for name, level, text in log_events())),
        "## Dead-letter reasons\n",
        (
            "The header `areba.reason` of a dead letter. The breaker stops a stream after too many records with a "
            "reason that is marked here: the record alone is the cause. A tombstone, a record without a value, is no "
            "dead letter.\n"
        ),
        *reasons_section(),
        "## Topics\n",
        (
            "Names have the prefix `kafka.topic_prefix`. Values are Avro single objects: `C3 01`, the schema's "
            "CRC-64-AVRO fingerprint in 8 bytes, the record; or those of inputs and outputs have "
            "[Confluent's wire format](subscribers.md#confluents-wire-format). Below, records of an application with "
            "one stream, decoded.\n"
        ),
        *topics_section(),
        "## Records\n",
        *records_section(),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"
