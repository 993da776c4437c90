"""The settings that change a result, and their stored form."""

import json
from pathlib import Path

import pytest

from stream_app.config import Config, TaskSettings, load
from stream_app.config.serialization_settings import SerializationSettings
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

    def test_a_misspelt_choice(self, tmp_path: Path) -> None:
        """The error names the nearest value."""
        assert "did you mean correct?" in "".join(faults(tmp_path, "join: {corrections: corect}"))

    def test_a_copy_writes_its_own_values(self, tmp_path: Path) -> None:
        """The text is kept, since each of a worker's tasks writes it; a stale text would be recorded as in force."""
        settings = read(tmp_path, "streams: {a: {}}").task_settings()
        text = settings.to_json()
        copied = settings.model_copy(update={"dead_letter_bytes": 5})
        assert TaskSettings.from_json(copied.to_json()) == copied != settings
        assert settings.to_json() == text
        assert TaskSettings.from_json(text) is TaskSettings.from_json(text)

    def test_order_of_learners_is_kept(self, tmp_path: Path) -> None:
        """Outputs are published with the learners in the configured order."""
        task = read(tmp_path, "learners: {z: {method: areba}, a: {method: baseline}}\nstreams: {s: {}}").task_settings()
        again = TaskSettings.from_json(task.to_json())
        assert list(again.streams["s"].learners) == list(again.default_stream.learners) == ["z", "a"]

    def test_task_settings_do_not_depend_on_the_process(self) -> None:
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
        """The text has the settings of the learner's method only."""
        text = "learners: {a: {method: baseline}, b: {method: sliding}, c: {method: 'm:C', options: {x: [1, {y: 2}]}}}"
        task = read(tmp_path, text).task_settings()
        stored = json.loads(task.to_json())["default_stream"]["learners"]
        common = {"name", "method", "learning_rate", "hidden", "l2", "scaler", "network"}
        assert [set(learner) for learner in stored] == [common, common | {"window"}, {"name", "method", "options"}]


def test_no_setting_has_two_defaults() -> None:
    """Tests that construct the settings of a task would else check outputs that no worker writes."""
    defaults = {name for name, field in TaskSettings.model_fields.items() if not field.is_required()}
    assert defaults.isdisjoint(Config.model_fields)
    assert defaults.isdisjoint(SerializationSettings.model_fields)
