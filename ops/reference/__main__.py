"""The command."""

import logging
import sys

from ops.reference.page import PAGE, page


def main() -> None:
    """Write the page; with `--check`, exit with status 1 if the page is stale."""
    logging.disable(logging.WARNING)  # the dead letter of the example is meant
    text = page()
    if "--check" in sys.argv[1:]:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == text else 1)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
