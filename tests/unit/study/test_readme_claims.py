"""What README says of the study follows from the committed figures, and so does the page on RELAY."""

from pathlib import Path

import pytest

pytest.importorskip("statsmodels", reason="the optional extra `study` is not installed")

from study.readme_claims import RESULTS, claims, is_in_readme
from study.report.front import relay_above
from study.report.rivals.relay import write_relay


def test_readme_has_what_the_figures_say() -> None:
    """A reader who computes a claim again, and finds another number, believes no other."""
    found = claims()
    assert [claim.text for claim in found if not is_in_readme(claim)] == []
    report = (RESULTS / "report.md").read_text(encoding="utf-8")
    assert found[-1].text in report
    assert found[-1].text in (RESULTS / "river.md").read_text(encoding="utf-8")


def test_the_page_on_relay_is_that_of_its_figures(tmp_path: Path) -> None:
    """A figure on a page that no file has is an advertisement."""
    assert write_relay(tmp_path, RESULTS)
    assert (tmp_path / "relay.md").read_text(encoding="utf-8") == (RESULTS / "relay.md").read_text(encoding="utf-8")


def test_runs_that_were_not_computed_have_no_count() -> None:
    """`make study-quick` computes some runs of RELAY, and its report must not end in an error."""
    file = RESULTS / "relay.csv"
    assert relay_above(file, ["sine-1-stationary"]) == 1
    assert relay_above(file, ["sine-1-stationary", "sine-7-stationary"]) is None
