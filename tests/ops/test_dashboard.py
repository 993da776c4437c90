"""The dashboard in a real Chromium: what it shows equals the topics, also around a worker that stops and returns."""

import json
import os
import random
import shutil
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from stream_app.backends.clock import SystemClock
from stream_app.dashboard import model as module
from stream_app.dashboard.decisions import MAX_SHOWN
from stream_app.dashboard.feed import Feed
from stream_app.dashboard.server import listen, server
from stream_app.records import Example, Label, Metric, Outcome
from stream_app.serialization.codec import decode_one, encode
from stream_app.worker.worker import Worker
from tests.support.world import World, make_config, started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

pytestmark = pytest.mark.ops

EXAMPLES, DRIFT = 3_000, 1_800
LIMIT_MS = 20_000
FIGURES = ("gmean", "recall", "specificity", "precision", "roc_auc")
EVIL = "<img src=x onerror=document.title='owned'>"


@pytest.fixture
def page() -> "Iterator[Page]":
    """Return a page of a headless Chromium; an error in the page's scripts fails the test."""
    found = shutil.which("chromium")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("chromium is not installed (apt-get install chromium)")
        pytest.skip("chromium is not installed (apt-get install chromium)")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  (only where there is a browser)

    problems: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(LIMIT_MS)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
        yield page
        browser.close()
    assert problems == []


def _send(world: World, first: int, count: int) -> None:
    draws = random.Random(first)
    for number in range(first, first + count):
        label = int(draws.random() < 0.2)
        centre = (1.5 if label else -1.5) * (-1 if number >= DRIFT else 1)
        example = Example("s0", str(number), [draws.gauss(centre, 1.0)])
        world.put("examples", 0, b"s0", encode(example), 1_000 * number + 1)
        world.put("labels", 0, b"s0", encode(Label("s0", str(number), label)), 1_000 * number + 500)


def _process(worker: Worker, offset: int) -> None:
    for _ in range(2_000):
        if any(task.number == 0 and task.offsets == (offset, offset) for task in worker.tasks):
            return
        worker.turn()
    raise AssertionError([task.offsets for task in worker.tasks])


def _metrics(world: World) -> list[Metric]:
    records = [decode_one(value) for _, value, _, _ in world.rows("metrics", 0)]
    return [record for record in records if isinstance(record, Metric) and record.stream == "s0"]


def _shown(page: "Page") -> dict[str, list[str]]:
    rows = page.locator("#learners tbody tr").all()
    return {str(row.get_attribute("data-learner")): row.locator("td").all_inner_texts()[1:8] for row in rows}


def _expected(world: World) -> dict[str, list[str]]:
    newest: dict[str, Any] = {metric.learner: metric for metric in _metrics(world)}
    return {
        name: [
            *(f"{getattr(main, figure):.3f}" for figure in FIGURES),
            f"{metric.calibration_error:.3f}",
            str(metric.changes),
        ]
        for name, metric in newest.items()
        for main in (metric.main_window,)
    }


def _names_alerts(page: "Page", world: World) -> None:
    """Compare the newest alerts, and what their labels said, with the topics."""
    outcomes = [decode_one(value) for _, value, _, _ in world.rows("outcomes", 0)]
    alerts = [one for one in outcomes if isinstance(one, Outcome) and one.stream == "s0" and one.predicted_class == 1]
    shown = [row.locator("td").all_inner_texts() for row in page.locator("#alerts tbody tr").all()]
    expected = [(one.id, "right" if one.label == 1 else "false alarm") for one in reversed(alerts)]
    assert [(id_, said) for id_, _, _, said in shown] == expected[: len(shown)]
    assert len(shown) == MAX_SHOWN
    assert f"areba explain s0 {alerts[-1].id}" in page.locator("#explain").inner_text()
    labels = [row.locator("td").all_inner_texts()[1] for row in page.locator("#reliability tbody tr").all()]
    assert 1_000 < sum(int(text.replace(",", "")) for text in labels) < 2_000, "faded"


def _fits(page: "Page") -> None:
    """Check that nothing is wider than its panel, in windows from a wide to a narrow one."""
    wider = "() => [...document.querySelectorAll('.panel')].filter(one => one.scrollWidth > one.clientWidth).length"
    before = page.viewport_size
    assert before is not None
    for width in (1920, 1280, 1000, 700):
        page.set_viewport_size({"width": width, "height": 900})
        for _ in range(50):  # charts follow the window a moment later
            if not page.evaluate(wider):
                break
            page.wait_for_timeout(50)
        assert page.evaluate(wider) == 0, f"a window of {width} pixels"
    page.set_viewport_size(before)


def _sees_state(page: "Page", state: str) -> None:
    page.locator(f"#state[data-state={state}]").wait_for()


def test_the_page_shows_what_the_topics_hold(
    page: "Page", monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A wrong figure on a page that looks good would be believed, and a stopped worker overlooked."""
    monkeypatch.setattr(module, "STALLED_S", 0.2)
    caplog.set_level("ERROR")
    watched = {"s0": {"features": 1, "drift": {"reference_examples": 500, "window_examples": 250}}}
    world = World(make_config(streams=watched, worker={"max_batch_records": 500}, metrics={"every_labels": 20}))
    _send(world, 0, EXAMPLES)
    worker = started(world.worker())
    _process(worker, EXAMPLES)
    feed = Feed(world.cluster, world.config, SystemClock(), {"s0": [DRIFT]})
    with closing(listen("127.0.0.1", 0)) as listening:
        serving = server(feed, "127.0.0.1")
        thread = threading.Thread(target=serving.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            _compare(page, feed, world, worker, f"http://127.0.0.1:{listening.getsockname()[1]}/#stream=s0")
        finally:
            serving.should_exit = True
            thread.join(timeout=20)
    assert [line.message for line in caplog.records if line.name.startswith("uvicorn")] == [], "it ends quietly"


def _marks_have_texts(page: "Page", feed: Feed) -> None:
    """Point at the places of all marks in the chart of the G-mean; the text there must name each."""
    details = json.loads(feed.published.details["s0"])
    [drift] = details["drifts"]
    times = [time_ms for learner in details["learners"] for time_ms in learner["curve"]["time_ms"]]
    over = page.locator("#gmean .u-over")
    box = over.bounding_box()
    assert box is not None
    for wanted, time_ms in [
        *((f"change {mark['changes']} of {mark['learner']}, ", mark["time_ms"]) for mark in details["marks"]),
        (f"after example {DRIFT:,}", drift["time_ms"]),
    ]:
        share = (time_ms - min(times)) / (max(times) - min(times))
        over.hover(position={"x": share * box["width"], "y": box["height"] / 2})
        assert wanted in page.locator("#gmean .tip").inner_text()
    over.hover(position={"x": 5, "y": 5})
    assert page.locator("#gmean .tip").is_hidden()


def _names_drift(page: "Page", feed: Feed, world: World) -> None:
    """Compare the entry of a feature that drifted with the metrics of the champion."""
    metrics = [metric for metric in _metrics(world) if metric.champion]
    first = next(metric for metric in metrics if metric.features_drifted)
    entries = json.loads(feed.published.details["s0"])["found_drifts"]
    [entry] = (entry for entry in entries if entry["what"] == "feature 0")
    assert (entry["time_ms"], entry["ended_ms"]) == (first.event_time_ms, None)
    shown = [
        text for text in page.locator("#changes tbody tr").all_inner_texts() if text.startswith("drift of feature")
    ]
    largest = max(metric.largest_feature_psi or 0.0 for metric in metrics)
    assert len(shown) == 1
    assert " since " in shown[0]
    assert shown[0].endswith(f"largest PSI: {largest:.3f}")


def _evil(metric: Metric) -> Metric:
    fields = {name: getattr(metric, name) for name in Metric.__slots__}
    return Metric(**{**fields, "stream": EVIL, "learner": EVIL, "champion": True})


def _compare(page: "Page", feed: Feed, world: World, worker: Worker, url: str) -> None:
    page.goto(url)
    page.locator("#application:text('app')").wait_for()
    page.locator("#empty progress").wait_for()
    assert page.locator("main").is_hidden()
    feed.catch_up()
    page.locator("main").wait_for()
    feed.step()
    page.locator("#learners tbody tr").first.wait_for()
    assert _shown(page) == _expected(world)
    _names_alerts(page, world)
    _fits(page)
    changes = sum(metric.changes for metric in {metric.learner: metric for metric in _metrics(world)}.values())
    assert changes > 0, "the drift is seen"
    assert page.locator("#gmean").get_attribute("data-marks") == str(changes)
    assert page.locator("#gmean canvas").count() == 1
    _marks_have_texts(page, feed)
    _names_drift(page, feed, world)

    _send(world, EXAMPLES, 200)  # nobody processes them
    for _ in range(4):
        feed.step()
        page.wait_for_timeout(100)
    _sees_state(page, "stalled")
    work = json.loads(feed.published.details["s0"])["work"]
    assert work["labelled_per_s"][-1] is None, "a gap"
    assert work["lag_s"][-1] > 100
    _process(worker, EXAMPLES + 200)
    feed.step()
    page.wait_for_timeout(600)
    feed.step()
    _sees_state(page, "live")
    page.locator("#learners tbody tr").first.wait_for()
    assert _shown(page) == _expected(world)

    world.put("metrics", 0, b"s0", encode(_evil(_metrics(world)[-1])), 1)  # last: the worker refuses foreign records
    feed.step()
    page.locator("#streams tbody tr").nth(2).wait_for()
    assert page.locator("#streams button span").all_inner_texts() == sorted([EVIL, "s0", "s1"])
    assert page.title() == "app"

    world.broker.delete_topic(world.config.topics.predictions)
    feed.step()
    page.locator("#notes li").first.wait_for()
    assert world.config.topics.predictions in page.locator("#notes").inner_text()
