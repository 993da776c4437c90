"""The page loads nothing from elsewhere, and takes names from records as text."""

import re

import pytest

from stream_app.dashboard.server import STATIC


@pytest.mark.parametrize("name", ["index.html", "dashboard.css", "charts.js", "dashboard.js"])
def test_the_page_loads_nothing_from_elsewhere(name: str) -> None:
    """The page must work without the Internet, and must not reveal that it is open."""
    text = (STATIC / name).read_text(encoding="utf-8")
    assert re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]+", text) == []


def test_names_from_records_are_set_as_text() -> None:
    """A name such as `<script>` in a record must not become a part of the page."""
    for name in ("charts.js", "dashboard.js"):
        text = (STATIC / name).read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text)
