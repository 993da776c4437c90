"""A threshold that an operator promotes decides from its mark on, whatever happens to the workers."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from stream_app.admin.compare_configuration import compare
from stream_app.admin.learner_list import documents
from stream_app.admin.marks import decide
from stream_app.admin.models import Application, rebuild
from stream_app.backends.base import TopicPartition
from stream_app.backends.memory.sender import EmbeddedSender
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.config import Config
from stream_app.progress_records import RESET, Act, Commit
from stream_app.records import Mark, MarkKind, Prediction
from stream_app.serialization.codec import decode_one, encode
from stream_app.serialization.erased_ids import id_digest
from stream_app.testing import InProcess
from stream_app.verify.results import Code
from stream_app.verify.verify import verify

STREAM, LATE = "s", 20
COSTS = {"false_positive": 1, "false_negative": 3}


class Pumps:
    """An application over an in-process log, whose labels come `LATE` examples after their examples."""

    def __init__(self, **stream: object) -> None:
        self.sections: dict[str, Any] = {
            "application": {"id": "app", "instance": "in-process"},
            "streams": {STREAM: {"features": 2, **stream}},
            "learners": {"areba": {"method": "areba"}, "oob": {"method": "oob", "ensemble_size": 3}},
            "predictions": "all",
            "metrics": {"every_labels": 10},
        }
        self.log = InProcess(**self.sections)
        self._number = 0

    def send(self, count: int) -> None:
        """Send examples, and labels of earlier examples."""
        for number in range(self._number, self._number + count):
            x = [math.sin(number), math.cos(7 * number)]
            self.log.send_example(STREAM, str(number), x)
            if number >= LATE:
                self.log.send_label(STREAM, str(number - LATE), int(math.sin(number - LATE) > 0.3))
        self._number += count

    @property
    def application(self) -> Application:
        """The application as a command sees it."""
        log = self.log
        return Application(log.config, log._cluster, log._clock, partial(EmbeddedTransaction, log._broker))

    def promote(self, threshold: str) -> None:
        """Run `areba promote --threshold`."""
        decide(self.application, EmbeddedSender(self.log._broker), STREAM, threshold, 0)

    def restart(self, **stream: object) -> None:
        """Kill the worker, and start another with these settings of the stream."""
        self.sections["streams"] = {STREAM: {"features": 2, **stream}}
        self.log.config = Config.model_validate(self.sections)
        self.log.crash()

    def reset(self) -> None:
        """Reset the stream while no worker runs."""
        topic = self.log.config.topics.progress
        records = [decode_one(row.value or b"") for row in self.log.rows(topic)]
        last = max(record.sequence for record in records if isinstance(record, Commit | Act))
        value = encode(Act(last + 1, RESET, "0", STREAM))
        self.log._broker.append(TopicPartition(topic, 0), [(None, value, 1, ())])
        self.log.crash()

    def kinds(self, learner: str = "areba") -> list[tuple[str, float | None]]:
        """Return what decided the class of each example."""
        found = [one for one in self.log.predictions() if one.learner == learner]
        assert [one.id for one in found] == [str(number) for number in range(len(found))]
        return [(one.threshold_kind, one.threshold) for one in found]

    def outputs(self) -> list[list[bytes | None]]:
        """Return the values of all outputs."""
        topics = self.log.config.topics
        return [[row.value for row in self.log.rows(topic)] for topic in topics[2:6]]

    def findings(self) -> Sequence[str]:
        """Return what `areba verify` finds, with its second run."""
        return list(map(str, verify(self.log._cluster, self.log.config, rerun=True).findings))


SCORE = float.fromhex("0x1.333334p-2")
"""0.3 as a float32."""


@pytest.mark.parametrize("learner", ["areba", "oob"])
@pytest.mark.parametrize("at", [1, 37, 60])
def test_it_decides_from_its_record_on(learner: str, at: int) -> None:
    """The command's mark is a record among the examples: each prediction says which side of the mark it is on."""
    pumps = Pumps()
    pumps.send(at)
    pumps.promote("score: 0.3")
    pumps.send(80 - at)
    pumps.promote("majority")
    pumps.send(10)
    pumps.log.run()
    assert (
        pumps.kinds(learner) == [("majority", None)] * at + [("score", SCORE)] * (80 - at) + [("majority", None)] * 10
    )
    assert pumps.findings() == []


def test_examples_that_wait_keep_their_class() -> None:
    """An outcome says how the answer that was given has ended, and metrics count that answer."""
    pumps = Pumps()
    pumps.send(50)
    pumps.promote("score: 0.999")
    pumps.send(50)
    pumps.log.run()
    classes = {one.id: one.predicted_class for one in pumps.log.predictions() if one.champion}
    assert [one.predicted_class for one in pumps.log.outcomes()] == [classes[one.id] for one in pumps.log.outcomes()]
    assert {classes[str(number)] for number in range(50)} == {0, 1}
    assert {classes[str(number)] for number in range(50, 100)} == {0}


@pytest.mark.parametrize("threshold", ["score: 0.3", "alerts: 0.2"])
def test_a_crash_and_a_restart_keep_it(threshold: str) -> None:
    """An operator promotes a threshold once: no crash, snapshot or restart with the same file may take it back."""
    whole, cut = Pumps(), Pumps()
    for pumps in (whole, cut):
        pumps.send(40)
        pumps.promote(threshold)
        for _ in range(3):
            pumps.send(20)
            if pumps is cut:
                pumps.log.run()
                pumps.restart()
        pumps.log.run()
    assert cut.kinds()[-1][0] == threshold.partition(":")[0]
    assert cut.outputs() == whole.outputs()
    assert cut.findings() == []


def test_another_value_in_the_file_replaces_it() -> None:
    """The last of mark and changed file wins; the same file, or a file that says what the mark said, does not."""
    pumps = Pumps(threshold={"score": 0.5})
    steps: list[tuple[str, object, str]] = [
        ("probability: 0.25", None, "probability"),
        ("", {"score": 0.5}, "probability"),
        ("", {"probability": 0.25}, "probability"),
        ("majority", None, "majority"),
        ("", {"probability": 0.25}, "majority"),
        ("", {"score": 0.5}, "score"),
    ]
    pumps.send(1)
    for number, (promoted, file, _) in enumerate(steps):
        if promoted:
            pumps.promote(promoted)
        if file:
            pumps.log.run()
            pumps.restart(threshold=file)
        pumps.send(LATE + number)
        pumps.log.run()
        assert pumps.kinds()[-1][0] == steps[number][2], number
    assert pumps.findings() == []


def test_another_setting_leaves_it() -> None:
    """The state is rebuilt under the new settings: that must not end what an operator has promoted."""
    pumps = Pumps(threshold={"score": 0.5})
    pumps.send(30)
    pumps.promote("probability: 0.25")
    pumps.send(5)
    pumps.log.run()
    pumps.restart(threshold={"score": 0.5}, costs=COSTS)
    pumps.send(5)
    pumps.log.run()
    assert pumps.kinds()[30:] == [("probability", 0.25)] * 10
    assert pumps.findings() == []


@pytest.mark.parametrize("again", ["mark", "file"])
def test_an_equal_threshold_changes_nothing(again: str) -> None:
    """A share of alerts keeps its scores: otherwise each repeated command would cost some hundred alerts."""
    outputs = []
    for repeats in (False, True):
        pumps = Pumps()
        pumps.send(1)
        pumps.promote("alerts: 0.2")
        pumps.send(79)
        pumps.log.run()
        if repeats and again == "file":
            pumps.restart(threshold={"alerts": 0.2})
        if repeats and again == "mark":
            pumps.promote("alerts: 0.2")
        pumps.send(40)
        pumps.log.run()
        assert pumps.findings() == []
        outputs.append([encode(one) for one in pumps.log.predictions()])
    assert outputs[0] == outputs[1]


def test_costs_need_the_costs_of_the_stream() -> None:
    """Without costs, each example would be class 0 in silence: the mark is a dead letter, and the classes stay."""
    pumps = Pumps(threshold={"score": 0.3})
    mark = Mark(STREAM, MarkKind.DECIDE, threshold_kind="costs")
    pumps.send(30)
    pumps.log._send(pumps.log.config.topics.examples, STREAM, encode(mark), None)
    pumps.send(30)
    pumps.log.run()
    assert [letter.reason for letter in pumps.log.dead_letters()] == ["unknown-costs"]
    assert pumps.kinds() == [("score", SCORE)] * 60
    pumps.restart(threshold={"score": 0.3}, costs=COSTS)
    pumps.promote("costs")
    pumps.send(10)
    pumps.log.run()
    assert pumps.kinds()[60:] == [("costs", 0.25)] * 10
    assert pumps.findings() == []


def test_erased_ids_leave_it_and_a_reset_does_not() -> None:
    """`areba erase` is about persons, not about decisions; `areba reset` begins with what the file says."""
    pumps = Pumps()
    pumps.send(30)
    pumps.promote("alerts: 0.3")
    pumps.send(30)
    erase = Mark(STREAM, MarkKind.ERASE, digests=id_digest(STREAM, "55"))
    pumps.log._send(pumps.log.config.topics.examples, STREAM, encode(erase), None)
    pumps.send(30)
    pumps.log.run()
    assert [kind for kind, _ in pumps.kinds()[30:]] == ["alerts"] * 60
    pumps.reset()
    pumps.send(5)
    pumps.log.run()
    assert pumps.kinds()[-1] == ("majority", None)
    assert pumps.findings() == []


@pytest.mark.parametrize("shown", [("majority", None), ("score", 0.25)])
def test_verify_finds_what_another_threshold_decided(shown: tuple[str, float | None]) -> None:
    """A worker that took the mark too late, or another one, gave subscribers wrong classes."""
    pumps = Pumps()
    pumps.send(40)
    pumps.promote("score: 0.3")
    pumps.send(40)
    pumps.log.run()
    place = TopicPartition(pumps.log.config.topics.predictions, 0)
    entries = pumps.log._broker._log(place).entries
    for number, entry in enumerate(entries):
        found = decode_one(entry.value or b"") if entry.value else None
        if isinstance(found, Prediction) and (found.id, found.learner) == ("40", "areba"):
            kind, threshold = shown
            changed = replace(found, threshold_kind=kind, threshold=threshold)
            entries[number] = entry._replace(value=encode(changed))
    findings = verify(pumps.log._cluster, pumps.log.config).findings
    assert [finding.code for finding in findings] == [Code.WRONG_PREDICTION]
    assert "threshold" in str(findings[0])


def test_what_commands_say_about_it() -> None:
    """The file is no longer what decides: who compares it, or lists the models, must see that."""
    pumps = Pumps(threshold={"score": 0.5})
    pumps.send(30)
    pumps.promote("probability: 0.25")
    pumps.send(5)
    pumps.log.run()
    [line, last] = compare(pumps.application).lines()
    assert line == (
        "stays       threshold: probability 0.25 in place of the file's score 0.5 (streams: s) was promoted, until the "
        "file has another one [task 0]"
    )
    assert last.startswith("nothing that changes results")
    rebuilt = rebuild(pumps.application, 0, None)
    assert {one["threshold"] for one in documents(pumps.log.config, 0, rebuilt)} == {"probability 0.25"}
    said = []
    for threshold in ({"probability": 0.25}, {"score": 0.75}):
        pumps.sections["streams"] = {STREAM: {"features": 2, "threshold": threshold}}
        pumps.log.config = Config.model_validate(pumps.sections)
        said += list(compare(pumps.application).lines())
    assert said == [
        "taken-over  threshold: score 0.5 -> probability 0.25 (streams: s) holds already: it was promoted [task 0]",
        "taken-over  threshold: probability 0.25 -> score 0.75 (streams: s) holds from now on [task 0]",
    ]
