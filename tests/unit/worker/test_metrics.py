"""`/metrics`: what is declared is published, exactly, in a format that Prometheus reads; and the figures are right."""

import http.client
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stream_app.admin.inspect_tasks import inspect
from stream_app.backends.base import TopicPartition
from stream_app.backends.clock import ManualClock
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.cli.restart import ProcessRestarts
from stream_app.cli.start import report_restarts
from stream_app.config import Config
from stream_app.record_columns import OutputRecords
from stream_app.records import Example, Label, Metric
from stream_app.serialization import codec
from stream_app.serialization.codec import decode_one
from stream_app.worker.reports import metrics
from stream_app.worker.reports.figures import COMMIT_BOUNDS_S, Figures
from stream_app.worker.reports.http import PageServer, pages_of
from stream_app.worker.reports.lag import MAX_POINTS, Lag
from stream_app.worker.reports.metric_declaration import MetricKind, Unit
from stream_app.worker.reports.metrics import PUBLISHED_STREAMS
from stream_app.worker.reports.observer import Observer
from stream_app.worker.worker import Worker
from tests.support.pages import get
from tests.support.world import World, all_at, make_config, started, take_turns

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


@contextmanager
def _served(observer: Observer) -> Iterator[int]:
    with closing(PageServer("127.0.0.1", 0, pages_of(observer))) as server:
        yield server.port


def _samples(observer: Observer) -> Samples:
    with _served(observer) as port:
        _, text = get(port, "/metrics")
    families = text_string_to_metric_families(text)
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def _of(samples: Samples, name: str, **labels: str) -> float:
    """Return the sum of the samples of a metric with these labels."""
    found = [value for (own, given), value in samples.items() if own == name and labels.items() <= given]
    assert found, f"there is no {name} with {labels}"
    return math.fsum(found)


def _look(world: World, member: Worker) -> None:
    """Let the worker look at all of its tasks and streams, and at the tables of the pass before."""
    for _ in range(4):
        world.clock.advance(2)
        member.turn()


def test_a_name_says_kind_and_unit() -> None:
    """Prometheus' conventions: a reader of a name knows how to query it."""
    for metric in (*metrics.METRICS, *metrics.PROCESS_METRICS):
        assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER), metric.name
        stem = metric.name.removesuffix("_total")
        for unit in (Unit.SECONDS, Unit.BYTES, Unit.RATIO):
            is_named = metric.name == "process_start_time_seconds" or metric.unit is unit
            assert stem.endswith(f"_{unit}") <= is_named, metric.name
            assert (metric.unit is unit) <= stem.endswith(f"_{unit}"), metric.name
    names = [metric.name for metric in metrics.METRICS]
    assert len(set(names)) == len(names)


def test_exactly_what_is_declared_is_published() -> None:
    """A metric of the reference that is never published makes an alert that never fires."""
    observer = Observer(ManualClock(), publishes=True)
    with _served(observer) as port:
        families = [*text_string_to_metric_families(get(port, "/metrics")[1])]
    found = {family.name + ("_total" if family.type == "counter" else ""): family for family in families}
    declared = {metric.name: metric for metric in (*metrics.METRICS, *metrics.PROCESS_METRICS)}
    assert found.keys() == declared.keys()
    for name, metric in declared.items():
        assert found[name].type == metric.kind, name
        assert found[name].documentation, name


def test_metrics_equal_the_records_in_the_topics() -> None:
    """Each total equals the records in the topics, and the gauges equal the task's state."""
    world = World(make_config(worker={"snapshot_after_ms": 0}))
    observer = Observer(world.clock, publishes=True)
    world.send(40, partitions=[0])
    world.put("examples", 0, b"s0", b"garbage", 10_000)
    member = started(world.worker(observer=observer))
    take_turns(member, until=lambda: any(task.offsets == (41, 40) for task in member.tasks))
    take_turns(member, until=lambda: not any(task.is_saving for task in member.tasks))
    _look(world, member)
    samples = _samples(observer)
    assert _of(samples, "areba_input_records_total", task="0", input="examples") == 41
    assert _of(samples, "areba_input_records_total", task="0", input="labels") == 40
    for output in ("predictions", "outcomes", "metrics", "dead-letters"):
        rows = len(world.rows(output, 0))
        assert _of(samples, "areba_output_records_total", task="0", output=output) == rows > 0
    assert _of(samples, "areba_dead_letters_total", task="0", reason="wrong-schema") == 1
    assert _of(samples, "areba_dead_letters_total", task="0") == 1
    assert _of(samples, "areba_lag_records") == 0
    assert _of(samples, "areba_lag_seconds") == 0
    assert _of(samples, "areba_commit_seconds_count") >= 9
    assert _of(samples, "areba_commit_age_seconds") == pytest.approx(8, abs=1)
    assert _of(samples, "areba_restore_seconds", task="0") >= 0
    assert _of(samples, "areba_snapshot_age_seconds", task="0") == pytest.approx(8, abs=1)
    assert _of(samples, "areba_unsaved_work_seconds", task="0") >= 0
    assert _of(samples, "areba_table_entries", task="0", table="closed") == 40
    assert _of(samples, "areba_table_entries", task="0", table="streams") == 1
    bound = world.config.join.max_closed_per_stream
    assert _of(samples, "areba_table_used_ratio", task="0", table="closed") == 40 / bound
    assert _of(samples, "areba_streams_left_out") == 0
    published = decode_one(world.rows("metrics", 0)[-1][1])
    assert isinstance(published, Metric)
    at = {"stream": "s0", "learner": published.learner}
    for name in ("gmean", "recall", "specificity", "precision", "roc_auc"):
        assert _of(samples, f"areba_{name}_ratio", **at) == getattr(published.main_window, name)
    assert _of(samples, "areba_calibration_error_ratio", **at) == published.calibration_error
    assert _of(samples, "areba_changes", **at) == published.changes
    assert _of(samples, "areba_champion", stream="s0") == 1


def test_lag_is_what_nobody_has_processed() -> None:
    """While a worker is stopped, its lag grows; when it has caught up there is no lag."""
    world = World()
    observer = Observer(world.clock, publishes=True)
    world.send(1, partitions=[0])
    member = started(world.worker(observer=observer))
    take_turns(member, until=lambda: any(task.offsets == (1, 1) for task in member.tasks))
    world.put("examples", 0, b"s0", b"garbage", 1)
    tripped = next(task for task in member.tasks if task.number == 0)
    member._ports.source.stop_reading(tripped.inputs)
    for _ in range(3):
        world.clock.advance(30)
        tripped.waiting[0].at_end = False  # as after the last poll of a partition whose end was not reached
        member._state_watch.look(member.tasks)
    samples = _samples(observer)
    assert _of(samples, "areba_lag_records", task="0", input="examples") == 1
    assert _of(samples, "areba_lag_records", task="0", input="labels") == 0
    assert _of(samples, "areba_lag_seconds", task="0", input="examples") == 60


def test_lag_behind_an_open_transaction() -> None:
    """Records that a producer's open transaction holds back are unprocessed, although the input was read to its end."""
    world = World()
    observer = Observer(world.clock, publishes=True)
    world.send(2, partitions=[0])
    member = started(world.worker(observer=observer))
    take_turns(member, until=lambda: any(task.offsets == (2, 2) for task in member.tasks))
    other = EmbeddedTransaction(world.broker, "other", 60.0)
    other.initialise()
    other.begin()
    values = [codec.encode(Label("s0", str(number), 1)) for number in range(7)]
    other.produce(TopicPartition("labels", 0), OutputRecords.of([b"s0"] * 7, values, [10_000] * 7))
    for _ in range(4):
        world.clock.advance(2)
        member.turn()
    samples = _samples(observer)
    assert _of(samples, "areba_partitions") == 2
    assert _of(samples, "areba_lag_records", task="0", input="examples") == 0
    assert _of(samples, "areba_lag_records", task="0", input="labels") == 7
    assert _of(samples, "areba_lag_seconds", task="0", input="labels") == pytest.approx(6, abs=2.1)
    [shown] = [one.lag for one in inspect(world.cluster, world.config, [0], clock=world.clock).tasks[0].inputs[1:]]
    assert shown == 7, "inspect counts the same"
    other.abort()
    for _ in range(4):
        world.clock.advance(2)
        member.turn()
    assert _of(_samples(observer), "areba_lag_records") == 0, "the marker is no lag"


def test_lag_in_seconds() -> None:
    """From when the next record was first known to exist; forgetting points never makes the lag shorter."""
    lag = Lag()
    assert lag.look(0, 0, 1.0) == 0
    assert lag.look(0, 10, 2.0) == 0
    assert lag.look(9, 20, 5.0) == 3
    assert lag.look(10, 20, 6.0) == 1
    assert lag.look(20, 20, 7.0) == 0
    long, seen = Lag(), {}
    for second in range(3 * MAX_POINTS):
        seen[second] = float(second)
        long.look(0, second + 1, float(second))
    assert len(long._points) <= MAX_POINTS
    now_s = 4.0 * MAX_POINTS
    for offset in range(0, 3 * MAX_POINTS, 7):
        exact = now_s - seen[offset]
        assert exact <= long.look(offset, 3 * MAX_POINTS, now_s) <= exact + 16


def test_the_number_of_series_is_bounded() -> None:
    """Ten thousand streams must not take Prometheus' memory; those that are left out are counted."""
    streams = PUBLISHED_STREAMS + 25
    settings = {"application": {"id": "app", "instance": "w"}, "limits": {"max_streams_per_task": 1_000}}
    world = World(Config.model_validate({**settings, "unknown_streams": "model"}))
    observer = Observer(world.clock, publishes=True)
    for number in range(streams):
        key = f"u{number}".encode()
        world.put("examples", 0, key, codec.encode(Example(key.decode(), "1", [1.0])), 1)
        world.put("labels", 0, key, codec.encode(Label(key.decode(), "1", 1)), 2)
    member = started(world.worker(observer=observer))
    take_turns(member, until=lambda: any(task.offsets == (streams, streams) for task in member.tasks))
    _look(world, member)
    samples = _samples(observer)
    named = {dict(labels).get("stream") for _, labels in samples} - {None}
    assert len(named) == PUBLISHED_STREAMS
    assert _of(samples, "areba_streams_left_out", task="0") == 25
    assert _of(samples, "areba_table_entries", task="0", table="streams") == streams
    member._owned.revoked([0])
    world.clock.advance(2)
    member._state_watch.look(member.tasks)
    assert not [labels for _, labels in _samples(observer) if "stream" in dict(labels)]


def test_the_histogram_of_commits() -> None:
    """A bucket has what is at most its bound; the last bucket and the count are the same."""
    figures = Figures()
    for seconds in (0.001, 0.002, 0.0021, 7.0, 100.0):
        figures.observe_commit(seconds)
    buckets, total = figures.commits()
    assert dict(buckets)["0.002"] == 2
    assert dict(buckets)["0.005"] == 3
    assert dict(buckets)["15"] == 4
    assert buckets[-1] == ("+Inf", 5)
    assert len(buckets) == len(COMMIT_BOUNDS_S) + 1
    assert total == pytest.approx(107.0051)


def test_restarts_are_published() -> None:
    """A worker that restarts itself repeatedly looks healthy between two restarts."""
    observer = Observer(ManualClock(), publishes=True)
    now_s = time.time()
    report_restarts(ProcessRestarts((now_s,) * 3, (now_s,)), observer.figures, was_fenced=True)
    samples = _samples(observer)
    assert _of(samples, "areba_recent_restarts", cause="error") == 3
    assert _of(samples, "areba_recent_restarts", cause="outage") == 1
    assert _of(samples, "areba_fenced") == 1


@pytest.mark.parametrize("path", ["/alive", "/ready", "/metrics", "/nothing"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_no_page_can_be_framed_or_changed(path: str, method: str) -> None:
    """A site that an operator visits must not show a worker's page as its own, and no page takes anything."""
    with (
        _served(Observer(ManualClock(), publishes=True)) as port,
        closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection,
    ):
        connection.request(method, path, body=b"" if method == "POST" else None)
        answer = connection.getresponse()
        assert (answer.status == http.client.METHOD_NOT_ALLOWED) == (method == "POST")
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_worker_without_pages_does_not_look() -> None:
    """Figures that are not published cost nothing."""
    world = World()
    world.send(3)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 3))
    _look(world, member)
    values = member._observer.figures.values()
    assert not values[metrics.LAG_RECORDS]
    assert not values[metrics.CHAMPION]
