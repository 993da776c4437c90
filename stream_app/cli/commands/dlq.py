"""`areba dlq`: show dead letters, and send them back."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stream_app.cli.commands.options import CONFIG_OPTION, JSON_OPTION
from stream_app.cli.commands.progress import progress_bar
from stream_app.errors import ConfigurationError
from stream_app.terminal import say

if TYPE_CHECKING:
    from stream_app.admin.dead_letters.selection import Selection

_NEWEST = 50
"""Dead letters that `areba dlq show` lists if no number is given."""


@click.group()
def dlq() -> None:
    """Show records that could not be processed, and send them back."""


def _selecting(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose dead letters; `_selection` takes their values."""
    moment = "time: 2026-01-31, 2026-01-31T10:00 (UTC), or 30m, 2h, 7d for so long ago"
    for option in (
        click.option("--until", metavar="TIME", help=f"Written before this {moment}."),
        click.option("--since", metavar="TIME", help=f"Not written before this {moment}."),
        click.option("--partition", "partitions", type=click.IntRange(0), multiple=True, help="Of this partition."),
        click.option("--stream", "streams", multiple=True, help="Of this stream; may be given several times."),
        click.option("--reason", "reasons", multiple=True, help="With this reason; may be given several times."),
    ):
        command = option(command)
    return command


def _selection(
    *,
    streams: Sequence[str],
    reasons: Sequence[str],
    partitions: Sequence[int],
    since: str | None,
    until: str | None,
    places: Sequence[str] = (),
) -> "Selection":
    """Return the selection that the options describe.

    Raises:
        ConfigurationError: A time or a place cannot be read.
    """
    from stream_app.admin.dead_letters.selection import (  # noqa: PLC0415  (see run)
        Selection,
        parse_record_ids,
        parse_time,
    )
    from stream_app.backends.clock import SystemClock  # noqa: PLC0415

    now_ms = SystemClock().now_ms()
    return Selection(
        reasons=frozenset(reasons),
        streams=frozenset(streams),
        partitions=frozenset(partitions),
        record_ids=parse_record_ids(places),
        since_ms=None if since is None else parse_time(since, now_ms),
        until_ms=None if until is None else parse_time(until, now_ms),
    )


@dlq.command("show")
@click.argument("place", metavar="[PARTITION:OFFSET]", required=False)
@CONFIG_OPTION
@_selecting
@click.option("--limit", type=click.IntRange(0), help=f"Show only this many, the newest; by default {_NEWEST}.")
@click.option("--full", is_flag=True, help="With PARTITION:OFFSET: print all bytes of the value.")
@JSON_OPTION
def show_command(
    place: str | None,
    path: Path,
    limit: int | None,
    *,
    full: bool,
    as_json: bool,
    **chosen: Any,  # noqa: ANN401  (the options of _selecting)
) -> None:
    """List dead letters, or show one with all that is known.

    Without PARTITION:OFFSET, the command lists dead letters, oldest first, and counts them by reason. With it, the
    command shows one dead letter: whether it was sent back, its origin, reason, headers and bytes; with --json, all
    bytes are in Base64. The exit status is 2 if there is no such reason, partition, topic or dead letter, and 1 if the
    input no longer has the parts that the dead letter left out.

    \b
    Examples:
      areba dlq show -c my.yaml --reason wrong-dimension --since 2h
      areba dlq show 0:4711 -c my.yaml --full
      areba dlq show 0:4711 -c my.yaml --json | jq -r .value_base64 | base64 -d
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin.dead_letters.listing import list_letters  # noqa: PLC0415  (see run)
    from stream_app.admin.dead_letters.selection import parse_record_ids  # noqa: PLC0415
    from stream_app.admin.dead_letters.show import show_letter  # noqa: PLC0415
    from stream_app.cli.clients import connect  # noqa: PLC0415
    from stream_app.cli.schemas import load_with_schemas  # noqa: PLC0415

    if place is not None and (limit is not None or any(chosen.values())):
        raise click.UsageError("PARTITION:OFFSET names one dead letter: omit the options that select dead letters")
    if place is None and full:
        raise click.UsageError("--full needs PARTITION:OFFSET")
    config = load_with_schemas(path)
    if place is None:
        found = list_letters(connect(config), config, _selection(**chosen), _NEWEST if limit is None else limit)
        for line in [json.dumps(found.to_plain())] if as_json else found.texts():
            say(line)
        return
    (record_id,) = parse_record_ids([place])
    letter = show_letter(connect(config), config, record_id)
    for line in [json.dumps(letter.to_plain())] if as_json else letter.texts(full=full):
        say(line)
    letter.check()


@dlq.command("resend")
@click.argument("places", nargs=-1, metavar="[PARTITION:OFFSET]...")
@CONFIG_OPTION
@_selecting
@click.option("--all", "everything", is_flag=True, help="Send back all dead letters; without it, choose some.")
@click.option("--limit", type=click.IntRange(1), help="Send back at most this number.")
@click.option("--dry-run", is_flag=True, help="Only print what would be sent.")
@JSON_OPTION
def resend_command(
    places: Sequence[str],
    path: Path,
    limit: int | None,
    *,
    everything: bool,
    dry_run: bool,
    as_json: bool,
    **chosen: Any,  # noqa: ANN401  (the options of _selecting)
) -> None:
    """Send dead letters back to the topics that they came from.

    Correct the cause first. Records keep their original key, value, headers and event time; further headers name the
    dead letter. A record that was sent back is never sent again; so if this command was killed, run it again. The exit
    status is 1 if some of the chosen records cannot be sent; the command names them.

    \b
    Examples:
      areba dlq resend -c my.yaml --stream pumps --dry-run
      areba dlq resend 0:4711 0:4712 -c my.yaml
      areba dlq resend -c my.yaml --all
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin.dead_letters.resend import resend  # noqa: PLC0415  (see run)
    from stream_app.cli.topic_setup import open_checked  # noqa: PLC0415

    selection = _selection(places=places, **chosen)
    if selection.is_everything and not everything:
        raise ConfigurationError("choose dead letters with --reason, --stream, ..., by PARTITION:OFFSET, or with --all")
    application = open_checked(path)
    with progress_bar("sending back") as on_progress:
        result = resend(application, selection, limit=limit, dry_run=dry_run, on_progress=on_progress)
    for line in [json.dumps(result.to_plain())] if as_json else (*result.warnings(), *result.texts()):
        say(line)
    sys.exit(0 if result.ok else 1)
