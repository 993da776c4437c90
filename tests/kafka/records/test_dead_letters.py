"""The cycle of dead letters on a real Kafka: inspected, fixed, sent back exactly once, even if the tool is killed."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from ops.broker import Broker
from ops.keeper import KeptProcess
from stream_app.backends.base import TopicPartition
from stream_app.records import Outcome, Prediction, Side
from stream_app.serialization import codec
from stream_app.serialization.dead_letter import DEAD_LETTER_HEADERS, Resend, read_sent_back
from tests.support.kafka.application import App, Section
from tests.support.kafka.exactly_once import check_exactly_once
from tests.support.kafka.processes import ROOT, areba, workers
from tests.support.kafka.progress import Progress
from tests.support.kafka.records import example, label
from tests.support.kafka.topics import read_topic, reading
from tests.support.kafka.waiting import START_DEADLINE_S, wait_until
from tests.support.rows import Sent

pytestmark = [pytest.mark.kafka, pytest.mark.slow(50)]

FANS = 6_000
"""Examples, and as many labels: twenty-four transactions to send them back, one of which is interrupted."""

BAD = 5

KNOWN: Mapping[str, Section] = {"pumps": {"features": 2}}
COMPLETED: Mapping[str, Section] = {**KNOWN, "fans": {"features": 2}}
NO_BREAKER: Mapping[str, Section] = {"breaker": {"in_a_row": 1_000}}


def _records(start_ms: int) -> list[Sent]:
    """Return records of a configured stream, of one that is not configured, and some random bytes."""
    records = []
    for number in range(FANS):
        now_ms = start_ms + 2 * number
        records += [example("fans", str(number), [number % 7, number % 3], now_ms)]
        records += [label("fans", str(number), number % 2, now_ms + 1)]
    for number in range(BAD):
        now_ms = start_ms + 10 * number
        records += [example("pumps", str(number), [0.5, 0.5], now_ms), label("pumps", str(number), 1, now_ms + 3)]
        records += [Sent(Side.EXAMPLES, 0, now_ms, b"pumps", b"not Avro", (("source", b"a scale"),))]
    return sorted(records, key=lambda record: record.time_ms)


def _marks(app: App) -> list[int]:
    """Return the offsets of the dead letters that were sent back."""
    rows = read_topic(app.cluster, TopicPartition(app.config.topics.dead_letters, 0))
    return [offset for row in rows if (offset := read_sent_back(row.headers)) is not None]


def _kill_on_the_way(app: App, file: Path) -> None:
    """Start the command, and kill it as soon as it has sent something back."""
    command = [
        sys.executable,
        "-m",
        "stream_app.cli",
        "dlq",
        "resend",
        "--reason",
        "unknown-stream",
        "-c",
        str(file),
    ]
    with reading(app.cluster, TopicPartition(app.config.topics.dead_letters, 0)) as reader:
        tool = KeptProcess(command, cwd=ROOT, stderr=subprocess.PIPE)

        def has_begun() -> bool:
            assert tool.poll() is None, "it ended by itself"
            fetched = reader.poll(10_000, 0.0)
            headers = fetched.records.headers.values() if fetched is not None else ()
            return any(read_sent_back(cells) is not None for cells in headers)

        try:
            wait_until(has_begun, "the first dead letters that are sent back")
        finally:
            tool.kill()
            tool.communicate()


def test_dead_letters_are_sent_back_after_a_fix(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """A stream that is missing in the configuration loses nothing: later it is learned with its original times.

    Otherwise a user would lose the records of a bad day, or get an example twice if the tool is killed and run again.
    """
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, prefix, tmp_path, {"streams": KNOWN, **NO_BREAKER})
    app.create_topics()
    app.send(_records(int(time.time() * 1000) - 600_000))
    file = app.file("w")
    with workers(app, "w") as (worker,), Progress(app) as progress:
        worker.start()
        progress.wait_for_ends(app.input_ends(), START_DEADLINE_S)
        assert worker.stop() == 0
        listed = areba(file, "dlq", "show", "--limit", "3")
        assert (listed.returncode, listed.stderr) == (0, "")
        assert listed.stdout.splitlines()[4:] == [
            f"the newest 3 of {2 * FANS + BAD:,}; --limit shows more",
            f"{2 * FANS + BAD:,} dead letters, 0 of them sent back",
            f"{2 * FANS:>9,} unknown-stream",
            f"{BAD:>9,} wrong-schema",
        ]
        early = areba(file, "dlq", "resend", "--stream", "fans", "--limit", "10")
        assert early.returncode == 1
        assert f"{2 * FANS:,} not sent: stream fans is still not configured" in early.stdout
        assert areba(file, "dlq", "resend").returncode == 2, "nothing was chosen"

        file = app.file("w", streams=COMPLETED)
        worker.start()
        _kill_on_the_way(app, file)
        sent = len(_marks(app))
        assert 0 < sent < 2 * FANS, "it was not killed in between"
        again = areba(file, "dlq", "resend", "--reason", "unknown-stream")
        assert again.returncode == 0, again.stderr
        last = f"{2 * FANS - sent:,} dead letters sent back, {sent:,} of those selected were sent back before"
        assert again.stdout.splitlines()[-1] == last
        once_more = areba(file, "dlq", "resend", "--reason", "unknown-stream")
        assert once_more.stdout == f"0 dead letters sent back, {2 * FANS:,} of those selected were sent back before\n"
        progress.wait_for_ends(app.input_ends())

        bad = areba(file, "dlq", "resend", "--reason", "wrong-schema", "--limit", "1")
        assert bad.returncode == 0
        progress.wait_for_ends(app.input_ends())
        assert worker.stop() == 0
        models = worker.models()[0]
    assert sorted(_marks(app)) == sorted(set(_marks(app)))
    outputs = app.outputs(0)
    answers = [codec.decode_one(read.value or b"") for read in outputs["predictions"]]
    counts = Counter(answer.id for answer in answers if isinstance(answer, Prediction) and answer.stream == "fans")
    assert counts == {str(number): 1 for number in range(FANS)}
    ends = [codec.decode_one(read.value or b"") for read in outputs["outcomes"]]
    joined = {end.id: (end.label, end.delay_ms) for end in ends if isinstance(end, Outcome) and end.stream == "fans"}
    assert joined == {str(number): (number % 2, 1) for number in range(FANS)}
    dead = outputs["dead-letters"][-1]
    assert (dead.value, dead.headers[0]) == (b"not Avro", ("source", b"a scale"))
    resent = Resend.read(dead.headers[: -len(DEAD_LETTER_HEADERS)])
    assert resent is not None
    assert resent.attempt == 1
    shown = areba(file, "dlq", "show", f"0:{dead.offset}")
    assert f"it was {prefix}dead-letters[0] offset {resent.offset}, sent back" in shown.stdout
    check_exactly_once(app)
    books = areba(file, "verify", "--models", "0", models)
    assert books.returncode == 0, books.stdout
    assert f"models of task 0 after a fresh run: {models}" in books.stdout


def test_errors_are_one_line(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """For a missing broker, topic or offset an operator needs its name, not a traceback."""
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, prefix, tmp_path, {"streams": KNOWN})
    nobody = app.file("n", kafka={"bootstrap_servers": "127.0.0.1:1"})
    refused = areba(nobody, "dlq", "show")
    assert (refused.returncode, refused.stderr[:38]) == (2, "no Kafka broker answers at 127.0.0.1:1")
    file = app.file("w")
    missing = areba(file, "dlq", "show")
    assert (missing.returncode, missing.stderr) == (
        2,
        f"{prefix}dead-letters: the topic does not exist; `areba topics create` creates it\n",
    )
    app.create_topics()
    empty = areba(file, "dlq", "show", "0:17")
    assert (empty.returncode, empty.stderr) == (2, f"{prefix}dead-letters[0] has no offset 17: it is empty\n")
    assert areba(file, "dlq", "show").stdout == "0 dead letters, 0 of them sent back\n"
    nothing = areba(file, "dlq", "resend", "--all")
    assert nothing.stdout == "0 dead letters sent back, 0 of those selected were sent back before\n"
