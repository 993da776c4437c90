"""The content of a configuration: names, sections, secrets."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from stream_app.config import (
    Config,
    LearnerSettings,
    load,
    read_threshold,
)
from stream_app.config.messages import bare_type
from stream_app.errors import ConfigurationError
from stream_app.lanes import lane_names, lane_of
from tests.unit.config.support import EXAMPLE, faults, read


class TestFile:
    """The content of the YAML file."""

    def test_an_empty_configuration_is_valid(self, tmp_path: Path) -> None:
        """A first trial needs no file, and a section whose lines are all commented out is empty."""
        assert load(None, {}) == read(tmp_path, "# nothing\njoin:\nstreams:\nkafka: {all: }\n")
        assert load(None, {}).task_settings().default_stream.champion == "areba"

    @pytest.mark.parametrize("text", ["", "# nothing\n", "null\n"])
    def test_an_empty_file_is_a_mistake(self, tmp_path: Path, text: str) -> None:
        """If it were taken for all defaults, a worker would wait for a broker that no user named."""
        assert faults(tmp_path, text) == ["areba.yaml: is empty; ops/areba.yaml shows every setting"]

    def test_the_example_shows_every_setting_and_its_default(self) -> None:
        """People copy ops/areba.yaml: a default that is not the real one, or a missing key, would mislead them."""
        text = EXAMPLE.read_text()
        given, default = load(EXAMPLE, {}), load(None, {})
        assert given.model_copy(update={"streams": {}}) == default.model_copy(update={"streams": {}})
        for key in _all_keys(Config):
            assert re.search(rf"\b{key}:", text), f"{key} is not in the example"

    def test_streams_resolve_over_learners(self, tmp_path: Path) -> None:
        """A stream's settings apply to all its learners; settings of a single learner of the stream override them."""
        task = read(
            tmp_path,
            """
            learners:
              first: {method: areba, budget: 40}
              second: {method: qbr}
            streams:
              fraud: {features: 30, learning_rate: 1e-4, champion: second}
              mnist: {hidden: [512, 512], budget: 10, learners: {first: {budget: 20, l2: 0.01}}}
            """,
        ).task_settings()
        fraud, mnist = task.streams["fraud"], task.streams["mnist"]
        assert (fraud.features, fraud.champion, mnist.features, mnist.champion) == (30, "second", None, "first")
        assert [settings.learning_rate for settings in fraud.learners.values()] == [0.0001, 0.0001]
        assert fraud.learners["first"].budget == 40
        assert (mnist.learners["first"].budget, mnist.learners["second"].budget) == (20, 10)
        assert (mnist.learners["first"].l2, mnist.learners["second"].l2) == (0.01, 0.0)
        assert mnist.learners["second"].hidden == (512, 512)
        assert list(task.default_stream.learners) == ["first", "second"]
        assert task.default_stream.learners["first"] == LearnerSettings(method="areba", budget=40)

    def test_lanes_are_streams_with_the_same_settings(self, tmp_path: Path) -> None:
        """The worker knows nothing of lanes: each is a stream like any other, and what is promised of streams holds."""
        config = read(tmp_path, "streams: {clicks: {features: 30, lanes: 8, learning_rate: 0.1}, pumps: {features: 3}}")
        task = config.task_settings()
        assert list(task.streams) == [*lane_names("clicks", 8), "pumps"] == list(config.record_streams)
        own = {name: settings for name, settings in task.streams.items() if name != "pumps"}
        first = own[lane_names("clicks", 8)[0]]
        assert all(settings == first for settings in own.values())
        assert (first.features, first.learners["areba"].learning_rate) == (30, 0.1)
        assert config.names_of("clicks") == lane_names("clicks", 8)
        assert (config.names_of("pumps"), config.names_of("other")) == (("pumps",), ("other",))
        assert config.name_of("clicks", "4711") == lane_of("clicks", 8, "4711")
        assert config.name_of("pumps", "4711") == "pumps"
        threshold = read_threshold("probability: 0.3", lane_names("clicks", 8)[0], config)
        assert threshold.value == 0.3

    def test_names_are_made_of_the_settings(self, tmp_path: Path) -> None:
        """Fencing, the group and the topics depend on these names."""
        settings = read(tmp_path, "application: {id: desk, instance: w-1}\nkafka: {topic_prefix: eu.}\n")
        assert settings.transactional_id == "desk/w-1"
        assert (settings.group_id, settings.log_reader_group_id) == ("desk", "desk/log-reader")
        assert settings.topics.dead_letters == "eu.dead-letters"
        assert (settings.topics.changelog, settings.topics.progress) == ("eu.desk-changelog", "eu.desk-progress")

    def test_two_applications_share_inputs_and_no_output(self, tmp_path: Path) -> None:
        """Another application.id is the remedy for a refused setting; its predictions must not mix with old ones."""
        old = read(tmp_path, "application: {id: fraud}\nkafka: {topic_prefix: bank.}\n").topics
        document = "application: {id: next}\nkafka: {topic_prefix: bank., output_prefix: bank.next.}\n"
        new = read(tmp_path, document).topics
        assert new[:2] == old[:2] == ("bank.examples", "bank.labels")
        assert not set(new[2:]) & set(old[2:])
        assert new.predictions == "bank.next.predictions"
        assert (new.changelog, new.progress) == ("bank.next-changelog", "bank.next-progress")
        fed = read(tmp_path, "kafka: {topic_prefix: bank., input_prefix: ''}\n").topics
        assert (fed.examples, fed.labels, fed.predictions) == ("examples", "labels", "bank.predictions")

    def test_topics_that_exist_already_keep_their_names(self, tmp_path: Path) -> None:
        """Producers of an organisation do not rename their topics for one reader."""
        document = "kafka: {topic_prefix: bank., topics: {examples: payments.features.v1, dead_letters: rejected}}\n"
        topics = read(tmp_path, document).topics
        assert (topics.examples, topics.labels) == ("payments.features.v1", "bank.labels")
        assert (topics.dead_letters, topics.predictions) == ("rejected", "bank.predictions")

    @pytest.mark.parametrize("names", ["labels: examples", "predictions: areba-progress", "progress: '..x y'"])
    def test_no_two_topics_have_the_same_name(self, tmp_path: Path, names: str) -> None:
        """A worker that read its own outputs would never end."""
        with pytest.raises(ConfigurationError, match=r"kafka\.topics\."):
            read(tmp_path, f"kafka: {{topics: {{{names}}}}}\n")

    def test_no_two_applications_or_tools_share_a_name(self, tmp_path: Path) -> None:
        """A process that has the name of another one would fence it, and abort its transaction."""
        names: list[str] = []
        for name, instance in [
            ("fraud", "eu-w1"),
            ("fraud-eu", "w1"),
            ("fraud", "dlq-resend"),
            ("fraud", "log-reader"),
        ]:
            settings = read(tmp_path, f"application: {{id: {name}, instance: {instance}}}\n")
            names.append(settings.transactional_id)
            assert settings.log_reader_group_id not in {"fraud", "fraud-eu", "fraud-log-reader"}
        assert len({*names, settings.resend_transactional_id}) == len(names) + 1
        for setting in ("id", "instance"):
            with pytest.raises(ConfigurationError, match=setting):
                read(tmp_path, f"application: {{{setting}: fraud/eu}}\n")

    def test_client_settings_are_text_as_written(self, tmp_path: Path) -> None:
        """The client reads text, but YAML would turn the password 0123 into 83 and the word yes into True."""
        settings = read(tmp_path, "kafka: {all: {sasl.password: 0123, a: yes, b: 1e3, c: false, d: 1_0}}")
        assert settings.kafka.all == {"sasl.password": "0123", "a": "yes", "b": "1e3", "c": "false", "d": "1_0"}

    def test_loaded_settings_cannot_be_changed(self) -> None:
        """Several stages read the settings; a change in one place would make results depend on it."""
        settings = load(None, {})
        with pytest.raises(ValidationError, match="frozen"):
            settings.join.ttl_ms = 1
        with pytest.raises(TypeError, match="item assignment"):
            settings.learners["areba"] = LearnerSettings(method="areba")  # type: ignore[index]


class TestSecrets:
    """A secret never reaches a log."""

    def test_shown_nowhere(self, tmp_path: Path) -> None:
        """Logs and tools show the configuration with passwords as stars, while the client gets the real values."""
        secrets = ("sasl.password", "ssl.key.password", "ssl.key.pem", "sasl.oauthbearer.client.secret", "my.TOKEN")
        settings = read(
            tmp_path, "kafka: {all: {" + ", ".join(f"{name}: hush" for name in secrets) + ", client.id: me}}"
        )
        shown = f"{settings!r} {settings} {settings.kafka!r} {settings.kafka}"
        assert "hush" not in shown
        assert shown.count("***") == 4 * len(secrets)
        assert "me" in shown
        assert settings.kafka.all["sasl.password"] == "hush"
        assert "hush" not in settings.task_settings().to_json()

    def test_not_in_error_lines(self, tmp_path: Path) -> None:
        """A password next to a mistake must not appear in the error."""
        for text in (
            "kafka: {all: {sasl.password: [hush]}}",
            "kafka: {sasl.password: hush}",
            "streams: {password: hush}",
        ):
            assert "hush" not in "".join(faults(tmp_path, text))


def _all_keys(model: type[BaseModel]) -> set[str]:
    keys = set()
    for name, field in model.model_fields.items():
        keys.add(name)
        nested = bare_type(field.annotation)
        for below in (nested, *(bare_type(argument) for argument in getattr(nested, "__args__", ()))):
            if isinstance(below, type) and issubclass(below, BaseModel):
                keys |= _all_keys(below)
    return keys
