"""What the commands say in an installation without extras, which has the packages of `stream_app.client` only."""

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def worker_extra(command: str) -> Iterator[None]:
    """Exit with status 2 if an import inside fails for want of a package, and name the extra that has the package.

    Raises:
        ModuleNotFoundError: A module of areba itself is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "stream_app":
            raise
        text = f"{command}: this needs the package {package}: pip install 'areba[worker]'"
        print(text, file=sys.stderr)  # noqa: T201  (`terminal.say` needs packages of the extra, too)
        sys.exit(2)
