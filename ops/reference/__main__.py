"""The command."""

import logging
import sys

from ops.reference import changes, example, json_schemas, page


def main() -> None:
    """Write the pages; with `--check`, exit with status 1 if any is stale."""
    logging.disable(logging.WARNING)  # the dead letter of the example is meant
    texts = {page.PAGE: page.page(), example.FILE: example.example(), changes.PAGE: changes.changes_page()}
    texts |= json_schemas.files()
    if "--check" in sys.argv[1:]:
        sys.exit(any(not path.exists() or path.read_text(encoding="utf-8") != text for path, text in texts.items()))
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
