"""Event times that data has: kept if the topics accept them, else moved to now, with the same distances."""

from pathlib import Path

import numpy as np
import pytest

from stream_app.errors import ConfigurationError
from stream_app.producers.datasets.base import DataSet
from stream_app.producers.events import events
from stream_app.producers.faults import Faults
from stream_app.producers.label_delay import parse_label_delay
from stream_app.producers.plan import Plan, StreamPlan
from stream_app.producers.replay import replay
from stream_app.producers.retention import fit_to_retention, place_times
from tests.support.replaying import NOW_MS, ListSender, plan_of, stream_plan
from tests.support.row_files import Heard

DAY_MS = 86_400_000
OF_2013_MS = 1_380_000_000_000


def _data(first_ms: int = OF_2013_MS, *, with_label_times: bool = True) -> DataSet:
    """Return three examples: on the first, second and tenth day, with labels after two days."""
    times = first_ms + DAY_MS * np.array([0, 1, 9])
    return DataSet(
        "own",
        np.eye(3, dtype=np.float32),
        np.array([0, 1, -1], np.int8),
        None,
        "none",
        "file",
        0.01,
        interval_ms=9 * DAY_MS // 2,
        times_ms=times,
        label_times_ms=times + 2 * DAY_MS if with_label_times else None,
        ids=np.array([b"a", b"b", b"c"]),
    )


def _plan(first_ms: int = OF_2013_MS) -> Plan:
    return plan_of(StreamPlan("own", _data(first_ms)), start_ms=None)


def test_kept_times_are_those_of_the_data() -> None:
    """A join by event time, and a report by day, need the real times."""
    plan, note = place_times(_plan(), -1, NOW_MS, keeps=None)
    assert note == "the event times begin at 2013-09-24T05:20:00Z and are kept (--shift-to-now moves them)"
    days = [(record.topic, (record.timestamp_ms - OF_2013_MS) / DAY_MS) for record in events(plan)]
    assert days == [
        ("examples", 0),
        ("examples", 1),
        ("labels", 2),
        ("labels", 3),
        ("examples", 9),
        ("examples", 9),
        ("labels", 9),
    ]


@pytest.mark.parametrize("keeps", [None, False])
def test_old_times_are_moved_to_now(keeps: bool | None) -> None:
    """Retention would delete the records at once; the distances stay, and a line says so."""
    plan, note = place_times(_plan(), 14 * DAY_MS, NOW_MS, keeps=keeps)
    assert "all times are moved, so that the last is now (--keep-times)" in note
    assert "records up to 14.0 days old" in note
    sender = ListSender()
    replay(plan, sender, sender.clock)
    times = [record.timestamp_ms for record in sender.sent if record.topic == "examples"]
    assert [(time_ms - NOW_MS) / DAY_MS for time_ms in times] == [-9, -8, 0, 0]


def test_times_in_the_future_are_moved() -> None:
    """Brokers refuse times that are an hour ahead."""
    plan, note = place_times(_plan(NOW_MS), -1, NOW_MS, keeps=None)
    assert plan.start_ms is None
    assert "they end in the future: all times are moved" in note
    kept, _ = place_times(_plan(NOW_MS - 9 * DAY_MS), 14 * DAY_MS, NOW_MS, keeps=None)
    assert kept.start_ms == NOW_MS - 9 * DAY_MS


def test_what_the_topics_refuse_is_refused_with_the_command() -> None:
    """The first refusal says how topics are made that accept history."""
    with pytest.raises(ConfigurationError, match=r"--keep-times: .* `areba topics create --retention \d+d`"):
        place_times(_plan(), 14 * DAY_MS, NOW_MS, keeps=True)
    plan, _ = place_times(_plan(), 5 * DAY_MS, NOW_MS, keeps=None)
    with pytest.raises(ConfigurationError, match=r"span 9\.0 days .* `areba topics create --retention 55d`"):
        fit_to_retention(plan, 5 * DAY_MS, NOW_MS)


def test_a_wish_that_does_not_fit_the_data_is_refused() -> None:
    """The user believes that times are kept."""
    with pytest.raises(ConfigurationError, match="--keep-times: no stream has event times of its own"):
        place_times(plan_of(), -1, NOW_MS, keeps=True)
    with pytest.raises(ConfigurationError, match="--shift-to-now: --start-ms says when they begin"):
        place_times(plan_of(StreamPlan("own", _data())), -1, NOW_MS, keeps=False)
    with pytest.raises(ConfigurationError, match="interval-ms: the data has times of its own"):
        StreamPlan("own", _data(), interval_ms=5)
    with pytest.raises(ConfigurationError, match="loops: the data has ids of its own"):
        StreamPlan("own", _data(), loops=2)


def test_streams_with_and_without_times_begin_together() -> None:
    """A generated stream beside a file lies in the same event time; the distance of two files stays."""
    later = StreamPlan("later", _data(OF_2013_MS + DAY_MS))
    plan, _ = place_times(
        plan_of(StreamPlan("own", _data()), later, stream_plan("sine:length=3"), start_ms=None), -1, NOW_MS, keeps=True
    )
    first: dict[bytes, int] = {}
    for record in events(plan):
        first.setdefault(record.key, record.timestamp_ms)
    assert first == {b"own": OF_2013_MS, b"later": OF_2013_MS + DAY_MS, b"sine": OF_2013_MS}


def test_faults_delays_and_loops_apply_to_a_file(tmp_path: Path) -> None:
    """What the shipped sets have: the same command tries one's own data against late labels and duplicates."""
    path = tmp_path / "rows.csv"
    path.write_text("at,x,y\n" + "".join(f"{number * 10},{number},{number % 4 // 3}\n" for number in range(400)))
    data = Heard().read(path, time="at", label="y", features=("x",))
    stream = StreamPlan(
        "rows",
        data,
        parse_label_delay("exponential:60s"),
        unlabelled_share=0.1,
        faults=Faults(duplicates=0.1, dropped=0.1, garbage=0.1, conflicting_labels=0.1, out_of_order=0.1),
        loops=2,
    )
    sender = ListSender()
    manifest = replay(plan_of(stream), sender, sender.clock)
    (said,) = manifest.streams
    assert said.source == "file"
    assert said.examples.sent + said.faults.dropped_examples == 800
    assert said.faults.duplicate_examples > 20
    assert said.faults.conflicting_labels > 20
    assert 600 < said.labels.sent < 800
    assert said.interval_ms == 10_000
    assert said.end_ms - said.start_ms >= 2 * 399 * 10_000 + 10_000


def test_the_manifest_says_what_is_the_datas_own() -> None:
    """A reader of the manifest looks ids and times up in the file."""
    sender = ListSender()
    (said,) = replay(plan_of(StreamPlan("own", _data())), sender, sender.clock).streams
    assert (said.id_prefix, said.label_delay, said.never_labelled) == ("", "own times", 1)
    assert (said.examples.sent, said.examples.positive, said.examples.negative) == (3, 1, 1)
