"""`areba acls`."""

import json
import os
from pathlib import Path

import click

from stream_app.backends.acls import Role, acl_entries
from stream_app.backends.acls import commands as acl_commands
from stream_app.cli.commands.options import CONFIG_OPTION
from stream_app.config import load
from stream_app.terminal import say


@click.command()
@CONFIG_OPTION
@click.option("--principal", required=True, help="User that gets the permissions, such as User:areba.")
@click.option(
    "--role", type=click.Choice([role.value for role in Role]), required=True, help="What the principal does."
)
@click.option("--group", help="Consumer group of a subscriber; by default APPLICATION.ID-subscribers.")
@click.option("--command-config", "client_file", help="File with the settings of the administrator's client.")
@click.option("--json", "as_json", is_flag=True, help="Print the permissions with their reasons as JSON.")
def acls(path: Path, principal: str, role: str, group: str | None, client_file: str | None, *, as_json: bool) -> None:
    """Print the commands that give a role its permissions.

    The commands call kafka-acls.sh of Apache Kafka; they grant exactly the permissions that the role needs. areba
    itself changes no permission, and contacts no broker. The exit status is 2 if the configuration, the principal or
    the group is wrong.

    \b
    Examples:
      areba acls -c my.yaml --principal User:areba --role worker
      areba acls -c my.yaml --principal User:desk --role subscriber --group desk
      areba acls -c my.yaml --principal User:areba --role worker --json
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    kind, separator, name = principal.partition(":")
    if not (kind and separator and name):
        raise click.BadParameter(f"{principal!r} is not of the form User:NAME", param_hint="--principal")
    if group is not None and role != Role.SUBSCRIBER:
        raise click.BadParameter("only a subscriber has a group of its own", param_hint="--group")
    config = load(path, os.environ)
    entries = acl_entries(config, Role(role), principal, group)
    if as_json:
        say(json.dumps([entry.as_data() for entry in entries]))
        return
    for line in acl_commands(entries, config.kafka.bootstrap_servers, client_file):
        say(line)
