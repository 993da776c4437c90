"""A user's own learner: the page that explains it, and what is refused."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from stream_app.config import load
from stream_app.errors import ConfigurationError, StateError
from stream_app.learners.methods.custom import OwnLearner
from stream_app.records import Operation
from tests.support.learner_steps import ids, in_turn, learner, operations, run_in_cuts, stream

PAGE = Path(__file__).parents[3] / "docs" / "own_learner.md"


def block(language: str) -> str:
    """Return the first block of the page in this language."""
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found.group(1)


_page: dict[str, Any] = {}
exec(compile(block("python"), str(PAGE), "exec"), _page)  # noqa: S102  (the page's own code is what is tested)
NearestMean = _page["NearestMean"]
HERE = f"{__name__}:"


class Broken(NearestMean):  # type: ignore[misc, valid-type]  # (a class of the page)
    """A learner that fails where the test chooses."""

    def __init__(self, features: int, seed: bytes, options: dict[str, Any]) -> None:
        super().__init__(features, seed, options)
        self.wrong = options.get("wrong")
        self.calls = np.zeros(1)
        if self.wrong == "make":
            raise RuntimeError("no")

    def predict(self, example: Any) -> float:  # noqa: ANN401  (as the page has it)
        """Return a probability, or an invalid one if the test asks for it."""
        if self.wrong == "drift":
            self.calls += 1
        if self.wrong == "write":
            example[0] = 1.0
        return {"nan": float("nan"), "two": 2.0}.get(self.wrong or "", 0.5)

    def learn(self, *_: object) -> None:
        """Fail."""
        raise KeyError("no such thing")

    def arrays(self) -> dict[str, Any]:
        """Return the state, or text if the test asks for it."""
        return {"calls": np.array(["text"]) if self.wrong == "text" else self.calls}

    def load(self, *_: object) -> None:
        """Fail."""
        raise IndexError("too short")


class Half:
    """A learner without the method `learn`."""

    def __init__(self, *_: object) -> None: ...

    def predict(self, _: object) -> float:
        """Return one half."""
        return 0.5


def test_the_example_of_the_page_has_what_it_says() -> None:
    """The page has twenty lines of code, the protocol, and a configuration that loads."""
    assert isinstance(NearestMean(2, bytes(32), {}), OwnLearner)
    assert sum(bool(line.strip()) for line in block("python").splitlines()) <= 20
    assert set(yaml.safe_load(block("yaml"))) == {"learners", "streams"}


def test_the_pages_configuration_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user copies both blocks into files, as the page says."""
    (tmp_path / "my_learners.py").write_text(block("python"))
    (tmp_path / "my.yaml").write_text(block("yaml"))
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = load(tmp_path / "my.yaml", {}).task_settings().streams["fraud"].learners["mine"]
    examples, labels = stream(500, 30, positives=0.5)
    which = learner(30, **settings.model_dump())
    answers = run_in_cuts(which, in_turn(labels), examples, 100)
    assert (answers.labels[400::2] == labels[200:]).mean() > 0.7
    assert which.arrays()["own.means"].shape == (2, 30)
    slow = learner(30, method=settings.method, options={"rate": 0.001})
    assert not np.array_equal(run_in_cuts(slow, in_turn(labels), examples, 100).scores, answers.scores)


@pytest.mark.parametrize(
    ("path", "options", "reason"),
    [
        ("no_such_package:Learner", {}, "learner test: method no_such_package:Learner: No module named"),
        ("Missing", {}, "has no attribute 'Missing'"),
        ("PAGE", {}, "not a class"),
        ("Half", {}, "has no learn, arrays, load"),
        ("Broken", {"wrong": "make"}, r"Broken failed: .*:\d+: RuntimeError: no"),
        ("Broken", {"wrong": "drift"}, "learner test: predict changes what"),
        ("Broken", {"wrong": "nan"}, "predict gave nan"),
        ("Broken", {"wrong": "two"}, "predict gave 2.0"),
        ("Broken", {"wrong": "text"}, "only numbers are kept"),
    ],
)
def test_a_class_that_will_not_do_is_refused_at_the_start(path: str, options: dict[str, Any], reason: str) -> None:
    """The error names it, and comes before any record is read."""
    with pytest.raises(ConfigurationError, match=reason):
        learner(method=path if ":" in path else HERE + path, options=options)


def test_an_error_in_own_code_names_the_learner() -> None:
    """In a worker with ten learners, the error must say which one failed."""
    examples, _ = stream(2, 2)
    which = learner(method=f"{HERE}Broken")
    here = re.escape(__file__)
    with pytest.raises(ConfigurationError, match=rf"^learner test: learn failed: {here}:\d+: KeyError: "):
        which.run(operations([(Operation.PREDICT, 0, -1), (Operation.LEARN, 0, 1)]), examples, ids(2))
    with pytest.raises(StateError, match=rf"learner test: load failed: {here}:\d+: IndexError: too short"):
        which.load(which.arrays())


def test_own_code_cannot_change_the_joins_features() -> None:
    """The other learners of the stream share this memory."""
    examples = np.zeros((2, 2), np.float32)
    which = learner(method=f"{HERE}NearestMean")
    which._own = learner(method=f"{HERE}Broken")._own  # type: ignore[attr-defined]
    which._own.wrong = "write"  # type: ignore[attr-defined]
    with pytest.raises(ConfigurationError, match="read-only"):
        which.run(operations([(Operation.PREDICT, 0, -1)]), examples, ids(2))
    assert not examples.any()
