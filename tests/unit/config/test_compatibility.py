"""What may change in a running application."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from stream_app.config import (
    JoinSettings,
    Running,
    ThresholdSettings,
    changes,
    threshold_of,
)
from stream_app.config.compatibility import Changes
from tests.unit.config.support import FIVE_STREAMS, read

FRAUD = Running(features=30, champion="areba", awaited=frozenset({"areba"}), threshold=ThresholdSettings())
"""The state of a stream that has run."""


class TestChanges:
    """The effect of each setting of a changed file on a running application: taken over, restarted, or refused."""

    def between(self, folder: Path, old: str, new: str, running: Mapping[str, Running] | None = None) -> Changes:
        """Return the changes from one text to another."""
        one, two = (read(folder, text or "{}").task_settings() for text in (old, new))
        return changes(one, two, running if running is not None else dict.fromkeys(one.streams, FRAUD))

    def test_nothing(self, tmp_path: Path) -> None:
        """A restart with the same file changes nothing."""
        base = "streams: {fraud: {features: 30}, sine: {}}"
        assert self.between(tmp_path, base, base) == Changes((), ())

    @pytest.mark.parametrize(
        ("old", "new", "line"),
        [
            ("", "streams: {x: {features: 3}}", "streams.x: is new"),
            ("", "join: {corrections: correct}", "join.corrections: first -> correct holds from now on"),
            *(
                ("", f"join: {{{name}: 7}}", f"join.{name}: {value} -> 7 holds from now on")
                for name, value in JoinSettings().model_dump(exclude={"corrections"}).items()
            ),
            ("", "predictions: all", "predictions: champion -> all holds from now on"),
            ("", "unknown_streams: model", "unknown_streams: dead-letter -> model holds from now on"),
            ("", "metrics: {every_labels: 2}", "metrics.every_labels: 100 -> 2 holds from now on"),
            ("", "metrics: {change_detector: ddm}", "metrics.change_detector: hddm -> ddm holds from now on"),
            ("", "limits: {max_streams_per_task: 4}", "limits.max_streams_per_task: 100 -> 4 holds from now on"),
            ("streams: {a: {}}", "streams: {a: {features: 30}}", "features: None -> 30 (streams: a) holds from now on"),
            ("streams: {a: {features: 30}}", "streams: {a: {}}", "features: 30 -> None (streams: a) holds from now on"),
            (
                "streams: {a: {}}",
                "learners: {areba: {method: areba}, baseline: {method: baseline}, new: {method: qbr}}\nstreams: {a: }",
                "learners.new: is new (streams: a) begins here",
            ),
            (
                "streams: {a: {}}",
                "learners: {areba: {method: areba}}\nstreams: {a: {}}",
                "learners.baseline: was removed (streams: a) is dropped here",
            ),
            (
                "streams: {a: {champion: areba}}",
                "learners: {baseline: {method: baseline}, areba: {method: areba}}\nstreams: {a: {champion: areba}}",
                "learners: areba, baseline -> baseline, areba (streams: a) holds from now on",
            ),
            (
                "streams: {a: {}}",
                "streams: {a: {learners: {areba: {l2: 0.5}}}}",
                "learners.areba.l2: 0.0 -> 0.5 (streams: a) holds from now on",
            ),
            (
                "streams: {a: {}}",
                "streams: {a: {learners: {areba: {hidden: [9]}}}}",
                "learners.areba.hidden: [8] -> [9] (streams: a) starts again",
            ),
            (
                "streams: {a: {}}",
                "learners: {areba: {method: qbr}, baseline: {method: baseline}}\nstreams: {a: {}}",
                "learners.areba.method: areba -> qbr (streams: a) starts again",
            ),
            (
                FIVE_STREAMS,
                "learners: {areba: {method: areba, budget: 40}, baseline: {method: baseline}}\n" + FIVE_STREAMS,
                "learners.areba.budget: 20 -> 40 (streams: a, b, c and 2 more) starts again",
            ),
        ],
    )
    def test_taken_over(self, tmp_path: Path, old: str, new: str, line: str) -> None:
        """An operator who tries a challenger or another rate can read the effect of each setting."""
        found = self.between(tmp_path, old, new)
        assert not found.refused
        assert line in found.taken_over

    @pytest.mark.parametrize(
        ("old", "new", "line", "way_out"),
        [
            ("", "metrics: {fading_factors: [0.9]}", "metrics.fading_factors: [0.99] -> [0.9]", "application.id"),
            ("", "limits: {max_features: 40}", "limits.max_features: 10000 -> 40", "application.id"),
            ("", "limits: {max_record_bytes: 400}", "limits.max_record_bytes: 1000000 -> 400", "application.id"),
            ("", "application: {id: b}", "application_id: areba -> b", "application.id"),
            ("streams: {a: {}}", "streams: {}", "streams.a: was removed", "application.id"),
            ("streams: {a: {}}", "streams: {a: {features: 3}}", "features: None -> 3 (streams: a)", "stream name"),
            (
                "streams: {a: {}}",
                "streams: {a: {champion: baseline}}",
                "champion: areba -> baseline (streams: a)",
                "areba promote STREAM baseline",
            ),
            (
                "streams: {a: {champion: areba}}",
                "learners: {baseline: {method: baseline}}\nstreams: {a: {}}",
                "learners.areba: was removed (streams: a)",
                "promote another one first",
            ),
        ],
    )
    def test_refused(self, tmp_path: Path, old: str, new: str, line: str, way_out: str) -> None:
        """A change that does not fit the state is refused with the setting, both values and a remedy."""
        found = self.between(tmp_path, old, new)
        [refusal] = [text for text in found.refused if text.startswith(line)]
        assert way_out in refusal

    def test_a_champion_whose_predictions_wait(self, tmp_path: Path) -> None:
        """Outcomes name the learner that predicted, so it may be removed once the last of its examples is closed."""
        old = "streams: {a: {champion: areba}}"
        new = "learners: {baseline: {method: baseline}}\nstreams: {a: {}}"
        promoted = FRAUD._replace(champion="baseline")
        [refusal] = self.between(tmp_path, old, new, {"a": promoted}).refused
        assert refusal.startswith("learners.areba: was removed (streams: a) but examples that it predicted")
        assert not self.between(tmp_path, old, new, {"a": promoted._replace(awaited=frozenset())}).refused

    def test_a_champion_that_was_promoted(self, tmp_path: Path) -> None:
        """Once a mark has promoted the champion, the file may name it, too."""
        old, new = "streams: {a: {champion: areba}}", "streams: {a: {champion: baseline}}"
        assert not self.between(tmp_path, old, new, {"a": FRAUD._replace(champion="baseline")}).refused

    def test_a_threshold_that_was_promoted(self, tmp_path: Path) -> None:
        """The file is not what decides then: an operator must see what does, and what would end it."""
        promoted = {"a": FRAUD._replace(threshold=threshold_of("probability", 0.3))}
        files = [f"streams: {{a: {{threshold: {one}}}}}" for one in ("majority", "{probability: 0.3}", "{score: 0.8}")]
        same, follows, other = (self.between(tmp_path, files[0], file, promoted) for file in files)
        [kept] = same.kept
        assert kept == (
            "threshold: probability 0.3 in place of the file's majority (streams: a) was promoted, until the file has "
            "another one"
        )
        assert not same.taken_over
        assert follows.taken_over == (
            "threshold: majority -> probability 0.3 (streams: a) holds already: it was promoted",
        )
        assert other.taken_over == ("threshold: probability 0.3 -> score 0.8 (streams: a) holds from now on",)
        assert not follows.kept
        assert not other.kept

    @pytest.mark.parametrize(("before", "after"), [("lanes: 8", "lanes: 16"), ("lanes: 8", ""), ("", "lanes: 2")])
    def test_the_number_of_lanes_is_fixed(self, tmp_path: Path, before: str, after: str) -> None:
        """Labels would go to other lanes than the examples that wait for them, and nobody would notice."""
        old, new = (f"streams: {{clicks: {{{lanes}}}, pumps: {{}}}}" for lanes in (before, after))
        found = self.between(tmp_path, old, new)
        (line,) = found.refused
        one, two = ((text or "lanes: none").removeprefix("lanes: ") for text in (before, after))
        assert line.startswith(f"streams.clicks.lanes: {one} -> {two} cannot be: labels would go to other lanes")
        assert not found.taken_over

    def test_a_stream_with_lanes_comes_and_goes_as_one(self, tmp_path: Path) -> None:
        """Eight lines about names that no file has would hide the others."""
        lanes = "streams: {clicks: {lanes: 8}}"
        assert self.between(tmp_path, "", lanes) == Changes(("streams.clicks: is new",), ())
        (line,) = self.between(tmp_path, lanes, "").refused
        assert line.startswith("streams.clicks: was removed: ")

    def test_all_at_once(self, tmp_path: Path) -> None:
        """All refused settings are reported together, one line each."""
        found = self.between(tmp_path, "", "limits: {max_features: 4}\nmetrics: {fading_factors: [1]}")
        assert [line.split(":")[0] for line in found.refused] == [
            "metrics.fading_factors",
            "limits.max_features",
        ]

    def test_learners_that_no_stream_uses(self, tmp_path: Path) -> None:
        """If every stream is configured, the defaults of other streams change nothing."""
        old = "streams: {a: {l2: 0.1}}"
        new = "learners: {areba: {method: areba, l2: 0.5}, baseline: {method: baseline, l2: 0.5}}\n" + old
        assert self.between(tmp_path, old, new) == Changes((), ())

    def test_a_stream_that_runs_already(self, tmp_path: Path) -> None:
        """A model that was created on the fly can be configured later like any other."""
        old = "unknown_streams: model"
        found = self.between(tmp_path, old, old + "\nstreams: {a: {l2: 1}}", {"a": FRAUD})
        assert "learners.areba.l2: 0.0 -> 1.0 (streams: a) holds from now on" in found.taken_over
