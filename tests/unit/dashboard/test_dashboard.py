"""The live page over a real worker on the in-process log: its documents, its server and its files."""

import hashlib
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from http.client import HTTPConnection, HTTPResponse
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from stream_app.backends.base import TopicPartition
from stream_app.cli.commands.dashboard import parse_drifts
from stream_app.cli.main import cli
from stream_app.config import load
from stream_app.dashboard import documents
from stream_app.dashboard import model as module
from stream_app.dashboard.feed import Feed
from stream_app.dashboard.model import STALLED_S, ChangeMark, DashboardModel
from stream_app.dashboard.series import Series, gaps
from stream_app.dashboard.server import STATIC, listen, server
from stream_app.errors import ConfigurationError
from stream_app.monitor.colours import LearnerColours
from stream_app.monitor.drift import DriftReader
from stream_app.records import Metric
from stream_app.serialization import codec
from tests.support.formats.metrics import metric
from tests.support.kafka.waiting import DEADLINE_S, wait_until
from tests.support.world import World, make_config, started, take_turns, world_after

UPLOT = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uPlot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
"""SHA-256 of the files of uPlot 1.6.32, which are part of the package as they were published."""

PASSWORD = "kept-from-everybody"  # noqa: S105  (made up)


@pytest.fixture
def world() -> World:
    """Return a world whose worker has processed 20 examples and labels of each partition."""
    return world_after(20)


@pytest.fixture
def feed(world: World) -> Feed:
    """Return a feed that has read what was there."""
    feed = Feed(world.cluster, world.config, world.clock)
    feed.catch_up()
    return feed


@pytest.fixture
def port(feed: Feed) -> Iterator[int]:
    """Serve the page on a free port."""
    with _serving(feed, "127.0.0.1") as port:
        yield port


@contextmanager
def _serving(feed: Feed, host: str, allowed_hosts: Sequence[str] = ()) -> Iterator[int]:
    """Serve the page on a free port of loopback, with the checks of a server that listens on this host."""
    with closing(listen("127.0.0.1", 0)) as listening:
        serving = server(feed, host, allowed_hosts)
        thread = threading.Thread(target=serving.run, kwargs={"sockets": [listening]})
        thread.start()
        wait_until(lambda: serving.started, "the server")
        yield listening.getsockname()[1]
        serving.should_exit = True
        thread.join(DEADLINE_S)


def _details(feed: Feed, stream: str) -> dict[str, Any]:
    with feed.viewing(stream):
        feed.step()
        found: dict[str, Any] = json.loads(feed.published.details[stream])
        return found


def _metrics(world: World, stream: str, learner: str) -> list[Metric]:
    """Return the metrics of a learner as they stand in the topic."""
    found = []
    for number in range(2):
        records, _, _ = world.broker.read(TopicPartition(world.config.topics.metrics, number), 0, 10**6)
        for value in records.values:
            metric = codec.decode_one(value or b"")
            if isinstance(metric, Metric) and (metric.stream, metric.learner) == (stream, learner):
                found.append(metric)
    return found


def test_the_dashboard_shows_the_numbers_of_the_topics(world: World, feed: Feed) -> None:
    """A page with other figures than the topics would be worse than none."""
    details = _details(feed, "s1")
    assert details["state"] == "idle"
    for learner in details["learners"]:
        metrics = _metrics(world, "s1", learner["metric"]["learner"])
        assert learner["metric"]["windows"][0]["gmean"] == metrics[-1].main_window.gmean
        assert learner["curve"]["gmean"] == [metric.main_window.gmean for metric in metrics]
        assert learner["curve"]["recall"] == [metric.main_window.recall for metric in metrics]
    assert len({learner["colour"] for learner in details["learners"]}) == len(details["learners"]) == 2


def test_a_worker_that_is_gone_and_its_return(world: World, feed: Feed) -> None:
    """While no worker processes the examples, the page must not look live."""
    world.send(5, first=20, partitions=[1])
    _details(feed, "s1")
    world.clock.advance(STALLED_S + 1)
    assert _details(feed, "s1")["state"] == "stalled"
    assert _details(feed, "s1")["work"]["labelled_per_s"][-1] is None, "a gap in the curve"
    worker = started(world.worker())
    take_turns(worker, until=lambda: any(task.offsets == (25, 25) for task in worker.tasks))
    world.clock.advance(1)
    assert _details(feed, "s1")["state"] in {"live", "idle"}


def test_a_stream_that_nobody_looks_at_costs_no_document(feed: Feed) -> None:
    """A thousand streams have details of some 100 KB each."""
    feed.step()
    assert feed.published.details == {}


@contextmanager
def _get(port: int, page: str, method: str = "GET", **headers: str) -> Iterator[HTTPResponse]:
    with closing(HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)) as connection:
        connection.request(method, f"/{page}", headers=headers)
        with connection.getresponse() as answer:
            yield answer


def test_the_dashboard_serves_its_page_files_and_events(port: int) -> None:
    """The page, its files, and the documents as server-sent events; no page may be framed, and nothing foreign runs."""
    for page in ("", "static/dashboard.js", "static/dashboard.css", *(f"static/{name}" for name in UPLOT)):
        with _get(port, page) as answer:
            assert answer.status == 200
            assert answer.headers["X-Frame-Options"] == "DENY"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            answer.read()
    with _get(port, "events") as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert answer.readline() == b"event: overview\n"
        document = json.loads(answer.readline().removeprefix(b"data: "))
        assert [stream["name"] for stream in document["streams"]] == ["s0", "s1"]


@pytest.mark.parametrize(("page", "method", "headers", "status"), [
    ("", "POST", {}, 405),
    ("events", "DELETE", {}, 405),
    ("static/../server.py", "GET", {}, 404),
    ("", "GET", {"Host": "attacker.example"}, 400),
])  # fmt: skip
def test_the_dashboard_refuses_other_methods_hosts_and_paths(
    port: int, page: str, method: str, headers: dict[str, str], status: int
) -> None:
    """The page only shows; another site must not read it through a name that leads to this machine."""
    with _get(port, page, method, **headers) as answer:
        assert answer.status == status


def test_a_port_in_use() -> None:
    """A second dashboard says which port is taken."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"127.0.0.1:{port}: "):
            listen("127.0.0.1", port)


def test_the_files_of_others_are_unchanged() -> None:
    """What is vendored must be what was published."""
    assert {name: hashlib.sha256((STATIC / name).read_bytes()).hexdigest() for name in UPLOT} == UPLOT


def test_curves_are_thinned_evenly() -> None:
    """A curve of a year must show the year, not its last hour, with a bound on its points."""
    series = Series(2, 100)
    for number in range(10_000):
        series.add(number, float(number))
    times, values = series.columns()
    assert len(times) <= 100
    assert times == values
    assert times[0] == 0
    gaps = [later - earlier for earlier, later in pairwise(times)]  # type: ignore[operator]
    assert max(gaps) <= 2 * 10_000 / 50


def test_known_drifts_are_marked_at_their_event_time() -> None:
    """A mark at another place would make a learner look slow, or clairvoyant."""
    model = DashboardModel(["s"], {"s": [25, 40, 5]})
    for examples, time_ms in ((10, 1_000), (20, 2_000), (30, 4_000), (40, 5_000)):
        model.add_metric(replace(metric(stream="s"), examples=examples, event_time_ms=time_ms), 0)
        model.add_metric(replace(metric(stream="s", learner="other"), examples=examples, event_time_ms=time_ms), 0)
    assert model.history("s").drifts == [(3_000.0, 25)], (
        "the drift before the first metric has no known time, 40 is not reached"
    )


def test_a_mark_says_what_was_flagged() -> None:
    """A line in a chart without learner and time leads nowhere."""
    model = DashboardModel(["s"])
    for changes, flagged, before, time_ms in ((1, 40, 0.8, 1_000), (1, 40, 0.8, 2_000), (2, 90, 0.7, 3_000)):
        found = replace(metric(stream="s"), changes=changes, change_flagged=flagged, gmean_before=before)
        model.add_metric(replace(found, event_time_ms=time_ms), 0)
    assert list(model.history("s").marks) == [ChangeMark(metric().learner, 3_000, 2, 90, 0.7)]


def test_a_drift_without_labels_has_an_entry() -> None:
    """Nobody watches the page all day: the entry says what drifted, since when, and whether it is over."""
    config = make_config(streams={"s0": {"columns": {"hour": {"cyclic": 24}, "amount": "number"}, "drift": {}}})
    model = DashboardModel(["s0"], {}, DriftReader(config.task_settings().streams))
    for time_ms, score, feature, psi, drifted in (
        (1_000, None, 0, 0.1, 0),
        (2_000, 0.1, 2, 0.4, 1),
        (3_000, 0.3, 2, 0.7, 2),
        (4_000, 0.6, 0, 0.5, 1),
        (5_000, 0.1, 0, 0.2, 0),
        (6_000, 0.4, 0, 0.2, 0),
    ):
        figures = {"score_psi": score, "largest_feature": feature, "largest_feature_psi": psi}
        found = replace(metric(stream="s0"), **figures, features_drifted=drifted)  # type: ignore[arg-type]
        model.add_metric(replace(found, event_time_ms=time_ms), 0)
        model.add_metric(replace(metric(stream="s0", learner="other"), event_time_ms=time_ms), 0)
    [stream] = model.figures().streams
    entries = json.loads(documents.details(model, stream, LearnerColours({})))["found_drifts"]
    assert entries == [
        {"what": "amount", "psi": 0.7, "time_ms": 2_000, "ended_ms": 5_000},
        {"what": "score", "psi": 0.6, "time_ms": 3_000, "ended_ms": 5_000},
        {"what": "score", "psi": 0.4, "time_ms": 6_000, "ended_ms": None},
    ]


@pytest.mark.parametrize(("times", "rows"), [
    ([], []),
    ([5], []),
    ([5, 5, 5], []),
    ([0, 10, 20, 120, 130], []),
    ([0, 10, 20, 121, 131, 500], [3, 5]),
    ([0, 0, 0, 10, 20, 20, 150], [6]),
])  # fmt: skip
def test_a_pause_is_a_gap(times: list[float | None], rows: list[int]) -> None:
    """A line through a night without labels would show a G-mean that nobody measured."""
    assert gaps(times) == rows


def test_the_document_has_the_gaps(world: World, feed: Feed) -> None:
    """The page draws no line where the document has a gap."""
    newest = replace(_metrics(world, "s1", "areba")[-1], event_time_ms=1_000_000)
    world.put("metrics", 1, b"s1", codec.encode(newest))
    learners = {one["metric"]["learner"]: one["curve"] for one in _details(feed, "s1")["learners"]}
    assert learners["areba"]["gaps"] == [len(learners["areba"]["time_ms"]) - 1]
    assert learners["baseline"]["gaps"] == []


def test_the_page_says_that_the_topics_are_being_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty page looks broken: its first state is there before the history is read."""
    feed = Feed(world.cluster, world.config, world.clock)
    assert json.loads(feed.published.overview) == {"application": "app", "reading": 0}
    shares: list[float] = []

    def reading(application: str, share: float) -> str:
        shares.append(share)
        return f"{application} {share}"

    monkeypatch.setattr(documents, "reading", reading)
    feed.catch_up()
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert "reading" not in json.loads(feed.published.overview)


def test_no_page_shows_a_secret(tmp_path: Path) -> None:
    """Pages have no password, and the output of a command ends in tickets."""
    file = tmp_path / "areba.yaml"
    secret = {"sasl.password": PASSWORD, "ssl.key.password": PASSWORD, "sasl.username": "name"}
    file.write_text(yaml.safe_dump({"application": {"id": "app", "instance": "w"}, "kafka": {"all": secret}}))
    world = World(load(file, {}))
    feed = Feed(world.cluster, world.config, world.clock)
    feed.catch_up()
    seen = []
    with _serving(feed, "127.0.0.1") as port:
        for page in ("", "config", "metrics", *(f"static/{found.name}" for found in STATIC.iterdir())):
            with _get(port, page) as answer:
                seen.append(f"{answer.headers} {answer.read().decode()}")
        with _get(port, "events?stream=s0") as answer:
            assert answer.readline() == b"event: overview\n"
            seen.append(answer.readline().decode())
    for options in ([], ["--json"]):
        shown = CliRunner().invoke(cli, ["config", "-c", str(file), *options])
        assert "sasl.username" in shown.output
        seen.append(shown.output)
    assert [place for place in seen if PASSWORD in place] == []


def test_the_addresses_of_a_page_that_listens_everywhere(feed: Feed) -> None:
    """In a container it listens on all addresses: even so another site must not read it under a name of its own."""
    for allowed, statuses in ((["page.example"], {"page.example": 200, "localhost:1": 200, "attacker.example": 400}),
                              ([], {"page.example": 200})):  # fmt: skip
        with _serving(feed, "0.0.0.0", allowed) as port:  # noqa: S104  (the server is bound to loopback)
            for host, status in statuses.items():
                with _get(port, "", Host=host) as answer:
                    assert answer.status == status, host


def test_the_curves_of_an_application_have_a_bounded_number_of_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dashboard that is left open for a month must not take the machine's memory."""
    monkeypatch.setattr(module, "MAX_CURVES", 6)
    monkeypatch.setattr(module, "MAX_POINTS", 20)
    streams = [f"s{number}" for number in range(4)]
    model = DashboardModel(streams)
    for number in range(500):
        model.tick(float(number))
        for stream in streams:
            for learner in ("areba", "second", "third"):
                changed = replace(metric(stream=stream, learner=learner), changes=number)
                model.add_metric(replace(changed, event_time_ms=number), 0)
        model.sample(model.figures().streams, number)
    histories = [model.history(stream) for stream in streams]
    curves = [curve for history in histories for curve in history.learners.values()]
    assert len(curves) == 6
    assert [history.is_cut for history in histories] == [False, False, True, True]
    points = [len(series.columns()[0]) for history in histories for series in (history.course, history.work)]
    points += [len(curve.columns()[0]) for curve in curves]
    assert max(points) <= 20 + 1, "and the newest"
    assert max(len(history.marks) for history in histories) <= module.MAX_MARKS


@pytest.mark.parametrize("text", ["sine", ":10", "sine:", "sine:-1", "sine:ten"])
def test_a_drift_that_says_nothing_is_refused(text: str) -> None:
    """A mistake in the option must not look like a stream without drifts."""
    with pytest.raises(ConfigurationError):
        parse_drifts([text])


def test_a_stream_may_have_a_colon_in_its_name() -> None:
    """Names of streams come from users."""
    assert parse_drifts(["a:b:1", "a:b:2", "c:3"]) == {"a:b": [1, 2], "c": [3]}
