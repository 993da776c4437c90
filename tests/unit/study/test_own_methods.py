"""Methods of a user beside those of a benchmark."""

from pathlib import Path

import pytest

pytest.importorskip("scipy", reason="the optional extra `study` is not installed")

from stream_app.config import LearnerSettings
from stream_app.errors import ConfigurationError
from study.field.report import of_file
from study.field.results import Repetition, read_results, write_results
from study.own_methods import choose_methods
from study.selective.__main__ import main as selective_main

KNOWN = {"areba_20": "areba", "relay": "relay"}
OWN_LEARNER = "tests.unit.learners.test_own_learner:NearestMean"


def _own(name: str, settings: LearnerSettings) -> str:
    return f"{name} {settings.method}"


def test_named_and_own_methods_are_chosen() -> None:
    """A reader compares an own method with the few that matter to them."""
    assert choose_methods((), KNOWN, _own, is_own_file=False) == KNOWN
    chosen = choose_methods(("relay", f"mine={OWN_LEARNER}"), KNOWN, _own, is_own_file=True)
    assert chosen == {"relay": "relay", "mine": f"mine {OWN_LEARNER}"}


@pytest.mark.parametrize(
    ("text", "is_own_file"),
    [
        ("no_such_method", True),
        ("mine=areba", True),
        (f"={OWN_LEARNER}", True),
        (f"relay={OWN_LEARNER}", True),
        ("mine=no.such.module:Learner", True),
        ("mine=study.own_methods:NoSuchClass", True),
        (f"mine={OWN_LEARNER}", False),
    ],
)
def test_a_wrong_method_is_an_error_that_names_it(text: str, is_own_file: bool) -> None:
    """It was a traceback, or a reader's figures were written under the name of another method, or among the page's."""
    with pytest.raises(ConfigurationError, match=r"(--method|learner) " + text.partition("=")[0]):
        choose_methods((text,), KNOWN, _own, is_own_file=is_own_file)


def test_an_own_file_of_the_field_is_shown_beside_the_committed_rows(tmp_path: Path) -> None:
    """A row over fewer streams or seeds than the others would compare different things."""
    committed, mine = read_results(), tmp_path / "mine.csv"
    own = {
        Repetition(stream, "mine", 1): committed[Repetition(stream, "relay", 1)]
        for stream in ("static-sine-1", "gradual-sea-20")
    }
    write_results(own, mine)
    rows = {
        row.split("|")[1].strip(): row.split("|")[2:-2] for row in of_file(mine).splitlines() if row.startswith("| `")
    }
    assert rows["`mine`"] == rows["`relay`"] != rows["`areba_20`"]
    assert "`csarf`" not in rows, "it has no seed 1"


@pytest.mark.slow(30)
def test_an_own_method_is_run_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """This is how a reader finds out whether an own method is any good."""
    method = ["--method", f"mine={OWN_LEARNER}", "--seeds", "1", "--results", str(tmp_path / "mine.csv")]
    assert selective_main(["run", "--stream", "sine-10", "--policy", "at-once", *method]) == 0
    assert selective_main(["report", *method]) == 0
    shown = capsys.readouterr().out
    assert "| `mine` | 0." in shown
    assert "| `relay` | 0." in shown
