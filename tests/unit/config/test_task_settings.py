"""The settings that change a result, and their stored form."""

import json
from pathlib import Path

import pytest

from stream_app.config import (
    TaskSettings,
    changes,
    load,
)
from stream_app.errors import ErrorCode, StateError
from tests.unit.config.support import faults, read


class TestTaskSettings:
    """The stored settings, which decide what a running application may take over."""

    def test_one_text_for_equal_settings(self, tmp_path: Path) -> None:
        """Stored texts are compared: the order of keys and the spelling of numbers must not matter, but values must."""
        one = read(
            tmp_path, "join: {ttl_ms: 5, closed_ttl_ms: 6}\nstreams: {a: {l2: 1}, b: {features: 2}}"
        ).task_settings()
        two = read(
            tmp_path, "streams: {b: {features: 2}, a: {l2: 1.0}}\njoin: {closed_ttl_ms: 6, ttl_ms: 5}"
        ).task_settings()
        assert one.to_json() == two.to_json()
        assert " " not in one.to_json()
        assert TaskSettings.from_json(one.to_json()) == one
        assert TaskSettings.from_json(one.to_json()).to_json() == one.to_json()
        assert list(json.loads(one.to_json())) == sorted(json.loads(one.to_json()))

    def test_corrections_are_fixed_and_stored_texts_without_them_are_read(self, tmp_path: Path) -> None:
        """An application from before corrections continues; the effect of a later label must not change for it."""
        first = read(tmp_path, "streams: {a: {}}").task_settings()
        plain = json.loads(first.to_json())
        assert plain["join"].pop("corrections") == "first"
        assert TaskSettings.from_json(json.dumps(plain)) == first
        correct = read(tmp_path, "join: {corrections: correct}\nstreams: {a: {}}").task_settings()
        [refusal] = changes(first, correct, {}).refused
        assert refusal.startswith("join.corrections: first -> correct would change results: set it back, or start")
        assert "did you mean correct?" in "".join(faults(tmp_path, "join: {corrections: corect}"))

    def test_order_of_learners_is_kept(self, tmp_path: Path) -> None:
        """Outputs are published with the learners in the configured order."""
        task = read(tmp_path, "learners: {z: {method: areba}, a: {method: baseline}}\nstreams: {s: {}}").task_settings()
        again = TaskSettings.from_json(task.to_json())
        assert list(again.streams["s"].learners) == list(again.default_stream.learners) == ["z", "a"]

    def test_nothing_of_the_process_is_in_it(self) -> None:
        """An instance's name, brokers and batch sizes may differ between the workers of one application."""
        environment = {
            "AREBA__APPLICATION__INSTANCE": "x",
            "AREBA__WORKER__MAX_BATCH_RECORDS": "7",
            "AREBA__BREAKER__SHARE": "1",
        }
        assert load(None, environment).task_settings() == load(None, {}).task_settings()

    @pytest.mark.parametrize(
        "text", ["", "{}", "[]", "null", "7", '{"application_id":"a","default_stream":3}', "[" * 100_000]
    )
    def test_damaged_text(self, text: str) -> None:
        """The progress topic may contain anything; the task is parked, and the process does not crash."""
        with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
            TaskSettings.from_json(text)

    def test_damaged_learners(self) -> None:
        """A learner without a name, or with a method that this version does not have, is reported."""
        text = load(None, {}).task_settings().to_json()
        for old, new in (('"name":"areba",', ""), ('"method":"areba"', '"method":"abera"')):
            assert old in text
            with pytest.raises(StateError):
                TaskSettings.from_json(text.replace(old, new))

    def test_a_learner_stores_what_it_has(self, tmp_path: Path) -> None:
        """The text of an older version, which stored all settings, can still be read."""
        text = "learners: {a: {method: baseline}, b: {method: sliding}, c: {method: 'm:C', options: {x: [1, {y: 2}]}}}"
        task = read(tmp_path, text).task_settings()
        stored = json.loads(task.to_json())["default_stream"]["learners"]
        common = {"name", "method", "learning_rate", "hidden", "l2", "scaler", "network"}
        assert [set(learner) for learner in stored] == [common, common | {"window"}, {"name", "method", "options"}]
        older = task.to_json().replace('"method":"baseline"', '"method":"baseline","budget":20,"theta":0.99')
        assert TaskSettings.from_json(older).to_json() == task.to_json()
