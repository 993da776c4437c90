"""Options that several commands have."""

from pathlib import Path

import click

CONFIG_OPTION = click.option(
    "-c",
    "--config",
    "path",
    type=click.Path(path_type=Path),
    required=True,
    envvar="AREBA_CONFIG",
    help="Configuration file (YAML); by default AREBA_CONFIG. AREBA__SECTION__KEY overrides a setting.",
)

TASK_OPTION = click.option(
    "--task", type=click.IntRange(0), help="Number of the stream's task; by default computed from the stream's name."
)

TASKS_OPTION = click.option(
    "--task", "tasks", type=click.IntRange(0), multiple=True, help="Only this task; may be given several times."
)

JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")

JSON_LINES_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON documents, one a line, not text.")
