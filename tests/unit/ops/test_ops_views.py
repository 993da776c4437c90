"""Tables, figure and watch: the views of a running application must agree with its topics."""

import io
import math
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.image import imread
from rich.console import Console, RenderableType

from ops import figure, table
from ops.watch import MAX_POINTS, Curve, Watch
from ops.workers import tasks_of
from stream_app.backends import topics as topic_plan
from stream_app.backends.clock import ManualClock
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.memory.sender import EmbeddedSender
from stream_app.config import Config
from stream_app.records import Commit, Metric
from stream_app.serialization.codec import encode

TOPICS = Config().topics


def metric(labelled: int = 900, gmean: float | None = 0.9143, stream: str = "fraud", learner: str = "areba") -> Metric:
    """Return a metric whose numbers are all different, so that a table cannot mix them up."""
    return Metric(
        stream=stream,
        learner=learner,
        champion=learner == "areba",
        labelled=labelled,
        recall=None if gmean is None else 0.8361,
        specificity=None if gmean is None else 0.9999,
        gmean=gmean,
        positive_correct=1.0,
        positive_total=2.0,
        negative_correct=3.0,
        negative_total=4.0,
        positive_size=0.1,
        negative_size=0.9,
        positive_queue=5,
        negative_queue=6,
        positive_capacity=10,
        negative_capacity=10,
        updates=labelled,
        examples=labelled + 1_100,
        unlabelled=77,
        evicted=0,
        duplicates=0,
        pending=3,
        waiting=0,
        delay_ms_p50=84_000,
        delay_ms_p90=None,
        delay_ms_p99=None,
        changes=0,
        change_flagged=None,
        change_began=None,
        gmean_before=None,
        labels_to_recover=None,
    )


def shown(view: RenderableType) -> str:
    """Return the view as text of 100 columns."""
    out = io.StringIO()
    Console(file=out, width=100).print(view)
    return out.getvalue()


def row(text: str, name: str) -> str:
    """Return the first row with this name, with one space between cells."""
    return " ".join(next(line for line in text.splitlines() if name in line).split())


def test_the_final_table() -> None:
    """There is one row for each learner, with every number in its column, and readable percentages and delays."""
    rows = [
        table.FinalRow(metric(), 2_000),
        table.FinalRow(metric(gmean=None, learner="baseline"), 1_999),
        table.FinalRow(replace(metric(stream="sine"), delay_ms_p50=None), 5),
    ]
    text = shown(table.final(rows))
    assert row(text, "fraud") == "fraud areba * 2,000 2,000 900 77 83.6 100.0 91.4 1.4 min"
    assert row(text, "baseline") == "baseline 2,000 1,999 900 77 - - - 1.4 min"
    assert row(text, "sine").endswith(" 91.4 -")


def test_the_live_table() -> None:
    """The lag belongs to the partition, so it appears once for each stream."""
    rows = [table.LiveRow(metric(), 4_321), table.LiveRow(metric(learner="baseline"), 4_321)]
    text = shown(table.live(rows))
    assert row(text, "fraud") == "fraud areba * 2,000 900 83.6 100.0 91.4 900 4,321"
    assert text.count("4,321") == 1
    assert table.plain(rows) == "fraud 900 labelled G-mean 91.4"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(None, "-"), (0, "0 ms"), (999, "999 ms"), (1_000, "1.0 s"), (90_000, "1.5 min"), (7_200_000, "2.0 h")],
)
def test_durations(milliseconds: int | None, text: str) -> None:
    """Delays go from milliseconds to days, so a single unit would be unreadable."""
    assert table.duration(milliseconds) == text


def test_the_figure_is_drawn(tmp_path: Path) -> None:
    """A learner without a G-mean, a stream without a metric, and a single panel must not stop the demo."""
    empty = figure.Curve("baseline", champion=False, positions=[10, 20], gmeans=[None, None])
    full = figure.Curve("areba", champion=True, positions=[10, 20], gmeans=[None, 0.5])
    panels = [
        figure.Panel("sine", [full, empty], {"posterior": 15}, [18], "1 % positive"),
        figure.Panel("sea", [empty]),
        figure.Panel("none", []),
        figure.Panel("four", [full]),
    ]
    path = figure.draw(panels, tmp_path / "new" / "figure.png", "title", "subtitle")
    height, width = imread(path).shape[:2]
    assert (width, height) == (2_070, 1_035)
    assert imread(figure.draw(panels[:1], tmp_path / "one.png", "title")).std() > 0


def test_long_curves_are_thinned_to_their_ends() -> None:
    """A year of metrics must be drawn in the time and memory of a day, with the first and the last point."""
    curve = figure.Curve("areba", champion=True, positions=range(10_001), gmeans=[0.5] * 10_000 + [None])
    positions, gmeans = figure.thinned(curve)
    assert len(positions) <= figure.MAX_POINTS + 1
    assert (positions[0], positions[-1]) == (0, 10_000)
    assert math.isnan(gmeans[-1])


def test_a_watched_curve_is_bounded() -> None:
    """Watching for weeks must not fill the memory."""
    curve = Curve(metric())
    for labelled in range(5 * MAX_POINTS):
        curve.add(metric(labelled))
    assert len(curve.positions) == len(curve.gmeans) <= MAX_POINTS + 1
    steps = {later - earlier for earlier, later in zip(curve.positions, curve.positions[1:], strict=False)}
    assert steps == {8}
    assert curve.latest.labelled == 5 * MAX_POINTS - 1


def test_watch_reads_what_is_committed() -> None:
    """The demo takes its bars and the lag from here, and waits for `finished`."""
    broker = EmbeddedBroker(ManualClock())
    for topic in topic_plan.plan(TOPICS, 2):
        broker.create_topic(topic)
    watch = Watch(EmbeddedCluster(broker), TOPICS, 2)
    watch.poll()
    assert (watch.processed, watch.curves) == (0, {})
    sender = EmbeddedSender(broker)
    for sequence, end in enumerate((10, 25)):
        commit = Commit(sequence, 0, end, 0, end - 5, bytes(32), 1, None)
        sender.send(TOPICS.progress, None, encode(commit), 0, partition=1)
        sender.send(TOPICS.metrics, b"fraud", encode(metric(end)), 0, partition=1)
    watch.poll()
    assert watch.processed == 25 + 20
    assert watch.ends == {0: (0, 0), 1: (25, 20)}
    assert watch.examples() == {"fraud": 1_125}
    assert watch.curves["fraud", "areba"].positions == [1_110, 1_125]
    assert watch.partition_of == {"fraud": 1}
    watch.close()


def test_tasks_are_read_from_the_log() -> None:
    """The demo kills the worker with most streams, and reports which tasks it has."""
    assigned, revoked = "12:00 INFO areba.worker assigned tasks=0,3", "12:01 INFO areba.worker revoked tasks=0,3"
    assert tasks_of([assigned]) == {0, 3}
    assert tasks_of([assigned, revoked, "12:02 INFO something else"]) == set()
    assert tasks_of(["INFO areba.worker assigned tasks=none"]) == set()
    assert tasks_of([]) == set()
