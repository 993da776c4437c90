"""`areba dashboard`: a running application in a browser."""

import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import click

from stream_app.cli.commands.options import CONFIG_OPTION
from stream_app.cli.process import without_client_log
from stream_app.errors import ConfigurationError
from stream_app.terminal import say


@click.command()
@CONFIG_OPTION
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; everyone who can reach it can see the page.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=8050, show_default=True, help="0: any free port.")
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="Name or address under which browsers may ask for the page, besides loopback; repeatable. "
    "[default: none if --host is loopback, else any]",
)
@click.option(
    "--drift",
    "drifts",
    multiple=True,
    metavar="STREAM:NUMBER",
    help="Mark a known drift after so many examples of a stream, as drift_at of areba-replay; repeatable.",
)
@click.option("--lanes", is_flag=True, help="Show each lane of streams with lanes, too.")
def dashboard(
    path: Path, host: str, port: int, allowed_hosts: tuple[str, ...], drifts: tuple[str, ...], *, lanes: bool
) -> None:
    """Show the application live in a browser.

    The page has G-mean, recall, specificity, precision and ROC AUC of each learner along event time with the changes
    that were flagged, class sizes, queues, label delays, outcomes, dead letters by reason, throughput and lag. A stream
    with lanes has the sums of its lanes. The command reads only the topics, with the history that the metrics topic
    still holds; it contacts no worker and writes nothing. The page has no password: if you set --host, put it behind a
    proxy that asks for a password. The command needs the extra `dashboard`. Ctrl-C ends it.

    The exit status is 0, also after Ctrl-C; 2 if a topic does not exist, no broker answers, or the port is in use.

    \b
    Examples:
      areba dashboard -c my.yaml
      areba dashboard -c my.yaml --port 8051
      areba dashboard -c my.yaml --drift sine:10000
    """  # noqa: D301  (click's mark for a paragraph that is not wrapped)
    try:
        from stream_app.dashboard.server import listen, server  # noqa: PLC0415  (needs the extra)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"areba dashboard needs {error.name}, which is not installed: pip install 'areba[dashboard]'"
        ) from error
    from stream_app.backends.clock import SystemClock  # noqa: PLC0415  (see run)
    from stream_app.cli.clients import connect  # noqa: PLC0415
    from stream_app.cli.schemas import load_with_schemas  # noqa: PLC0415
    from stream_app.dashboard.feed import Feed  # noqa: PLC0415

    known = parse_drifts(drifts)
    config = load_with_schemas(path)
    with without_client_log(), closing(listen(host, port)) as listening:
        feed = Feed(connect(config), config, SystemClock(), known, lanes=lanes)
        reading = threading.Thread(target=feed.run, name="feed", daemon=True)
        reading.start()
        shown = f"[{host}]" if ":" in host else host
        say(f"http://{shown}:{listening.getsockname()[1]}/")
        with suppress(KeyboardInterrupt):
            server(feed, host, allowed_hosts).run(sockets=[listening])
        feed.end()
        reading.join(timeout=5.0)


def parse_drifts(texts: Sequence[str]) -> dict[str, list[int]]:
    """Return the known drifts of each stream.

    Raises:
        ConfigurationError: A text is not a name, a colon and a number.
    """
    drifts: dict[str, list[int]] = {}
    for text in texts:
        stream, _, number = text.rpartition(":")
        if not (stream and number.isascii() and number.isdecimal()):
            raise ConfigurationError(f"--drift {text}: must be a stream's name, a colon and a number of examples")
        drifts.setdefault(stream, []).append(int(number))
    return drifts
