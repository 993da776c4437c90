"""`areba dlq` over both backends: an operator can find, understand and send back dead letters, each exactly once."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence

import pytest

from stream_app.admin.dead_letters.listing import list_letters
from stream_app.admin.dead_letters.origins import INPUT_DELETED, INPUT_DIFFERS
from stream_app.admin.dead_letters.record import RecordId
from stream_app.admin.dead_letters.resend_result import ResendResult  # noqa: TC001
from stream_app.admin.dead_letters.selection import Selection, parse_record_ids, parse_time
from stream_app.admin.dead_letters.show import show_letter
from stream_app.backends.base import TopicPartition
from stream_app.backends.clock import SystemClock
from stream_app.config import Config
from stream_app.errors import BooksError, ConfigurationError, FencedError, TopicError
from stream_app.record_columns import OutputRecords
from stream_app.records import UNREADABLE_HEADERS, Example, Header, Label
from stream_app.serialization import codec
from stream_app.serialization.dead_letter import SENT_BACK, Resend
from tests.contract.backends import DEADLINE_S, START_MS, Backend, wait_for_records
from tests.contract.dead_letters import EVERYTHING, TRACE, DeadLetterTopics, Died, Dying, Letter, encoded, make_letters


@pytest.fixture
def world(backend: Backend, prefix: str) -> Callable[..., DeadLetterTopics]:
    """Return a function that creates the topics."""
    return lambda partitions=1, **given: DeadLetterTopics(backend, prefix, partitions, **given)


def test_a_dead_letter_is_sent_back_once_with_every_byte(world: Callable[..., DeadLetterTopics]) -> None:
    """Key, value, headers, event time and partition equal the original's, for any bytes; it is sent once."""
    here = world()
    letters = [
        Letter(
            "undecodable", bytes(range(256)), 3, "examples", START_MS + 5, b"\xff", (("a", b"1"), ("a", None), TRACE)
        ),
        Letter("unknown-stream", codec.encode(Label("pumps", "1", 1)), 7, "labels", START_MS + 6),
        Letter("undecodable", None, 4, "examples", START_MS + 7, None),
    ]
    here.write(letters)
    assert here.resend(dry_run=True).sent.total() == 3
    assert not here.rows(here.names.examples), "a rehearsal writes nothing"
    assert not here.marks()
    done = here.resend()
    assert (done.sent.total(), done.before, done.ok) == (3, 0, True)
    one, two = here.rows(here.names.examples)
    (three,) = here.rows(here.names.labels)
    for row, letter in ((one, letters[0]), (three, letters[1]), (two, letters[2])):
        assert (row.timestamp_ms, row.key, row.value) == (letter.event_time_ms, letter.key, letter.value)
        assert tuple(row.headers[: len(letter.headers)]) == tuple(letter.headers)
        resent = Resend.read(row.headers)
        assert resent is not None
        assert resent[:2] == (here.names.dead_letters, 0)
        assert resent[3:7] == (getattr(here.names, letter.topic), 0, letter.offset, 1)
        assert len(row.headers) == len(letter.headers) + len(resent)
    assert here.marks() == [0, 1, 2]
    before = len(here.rows(here.names.dead_letters))
    again = here.resend()
    assert (again.sent.total(), again.before) == (0, 3)
    assert len(here.rows(here.names.dead_letters)) == before, "nothing to do writes nothing"
    assert len(here.rows(here.names.examples)) == 2


@pytest.mark.parametrize(
    ("commits", "dies_after"), [(1, False), (1, True), (2, False), (2, True), (3, False), (3, True)]
)
def test_a_kill_on_the_way(
    world: Callable[..., DeadLetterTopics], monkeypatch: pytest.MonkeyPatch, commits: int, *, dies_after: bool
) -> None:
    """A tool that is killed before or after any commit: the next run sends exactly what is left."""
    monkeypatch.setattr("stream_app.admin.dead_letters.resend.BATCH_RECORDS", 4)
    here = world()
    here.write(make_letters(10))
    with pytest.raises(Died):
        here.resend(dies=lambda transaction: Dying(transaction, commits, dies_after=dies_after))
    # the first transaction records that a resend begins
    sent = 4 * max(0, commits - 1 - (not dies_after))
    done = here.resend()
    assert (done.sent.total(), done.before) == (10 - sent, sent)
    assert [row.value for row in here.rows(here.names.examples)] == encoded(10)
    assert sorted(here.marks()) == list(range(10))


def test_an_open_transaction_hides_nothing(world: Callable[..., DeadLetterTopics]) -> None:
    """An open transaction of a worker must not make the tool believe that nothing was sent back before."""
    here = world()
    here.write(make_letters(3))
    worker = here.backend.transaction(f"{here.config.application.id}-w2")
    here.write([Letter("undecodable", b"x", 9)], worker)
    place = TopicPartition(here.names.dead_letters, 0)
    wait_for_records(here.backend, place, 5)  # three letters, their commit, the open one
    mine = Selection(reasons=frozenset({"unknown-stream"}))
    with pytest.raises(Died):  # the start is written, but readers cannot see it before the worker's transaction ends
        here.resend(mine, dies=lambda transaction: Dying(transaction, 1, dies_after=True))
    first = here.backend.transaction(here.config.resend_transactional_id)
    first.begin()
    first.produce(TopicPartition(here.names.examples, 0), OutputRecords.of([None], [b"sent before"], [START_MS]))
    marks: Mapping[int, Sequence[Header]] = {row: [(SENT_BACK, str(row).encode())] for row in range(3)}
    first.produce(place, OutputRecords.of([None] * 3, [None] * 3, [START_MS] * 3, marks))
    first.commit()
    results: list[ResendResult] = []
    tool = threading.Thread(target=lambda: results.append(here.resend(mine)), daemon=True)
    tool.start()
    wait_for_records(here.backend, place, 13)  # 2 records of the first start, 3 marks and a commit; the second start
    tool.join(0.3)
    assert not results, "it did not wait"
    worker.commit()
    tool.join(DEADLINE_S)
    assert (results[0].sent.total(), results[0].before) == (0, 3)
    assert [row.value for row in here.rows(here.names.examples)] == [b"sent before"]


def test_a_second_tool_ends_the_first(world: Callable[..., DeadLetterTopics], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two operators run the tool together: the first gets an error, and no record is sent twice."""
    monkeypatch.setattr("stream_app.admin.dead_letters.resend.BATCH_RECORDS", 2)
    here = world()
    here.write(make_letters(6))
    others: list[ResendResult] = []

    class Slow(Dying):
        def commit(self) -> None:
            super().commit()
            if not others:
                others.append(here.resend())

    with pytest.raises(FencedError):
        here.resend(dies=lambda transaction: Slow(transaction, -1, dies_after=True))
    assert others[0].sent.total() == 6
    assert [row.value for row in here.rows(here.names.examples)] == encoded(6)


def test_a_record_that_fails_again_counts_its_resends(world: Callable[..., DeadLetterTopics]) -> None:
    """A record that is sent back before the cause is fixed becomes a new dead letter, with one set of headers."""
    here = world()
    value = encoded(1)[0]
    here.write([Letter("unknown-stream", value, 0, headers=(TRACE,))])
    here.resend()
    (back,) = here.rows(here.names.examples)
    here.write([Letter("undecodable", value, back.offset, headers=back.headers)])
    second = here.rows(here.names.dead_letters)[-1].offset
    text = "\n".join(show_letter(here.cluster, here.config, RecordId(0, second)).texts())
    assert f"{here.names.dead_letters}[0] offset 0, sent back " in text
    assert "(attempt 1)" in text
    assert here.resend().sent == {("undecodable", here.names.examples): 1}
    last = here.rows(here.names.examples)[-1]
    resent = Resend.read(last.headers)
    assert resent is not None
    assert (resent.offset, resent.origin_offset, resent.attempt) == (second, back.offset, 2)
    assert last.headers[0] == TRACE
    assert len(last.headers) == len(back.headers)


def test_a_record_goes_back_with_its_own_time(world: Callable[..., DeadLetterTopics]) -> None:
    """Also a label that another record closed, and after retention has deleted the input: its delay stays right."""
    here = world()
    labels = [codec.encode(Label("pumps", str(number), 1)) for number in range(3)]
    reasons = ("orphan-label", "late-label", "conflicting-label")
    here.write(
        [
            Letter(reason, value, number, "labels", START_MS + number)
            for number, (reason, value) in enumerate(zip(reasons, labels, strict=True))
        ]
    )
    assert here.resend().ok
    back = here.rows(here.names.labels)
    assert [(row.timestamp_ms, row.value) for row in back] == [(START_MS + n, labels[n]) for n in range(3)]


def test_a_resend_names_the_letters_that_cannot_go_back(world: Callable[..., DeadLetterTopics]) -> None:
    """If it were sent, it would become a dead letter again, or be lost in a partition that no worker reads."""
    here = world()
    stranger = codec.encode(Example("fans", "1", [1.0]))
    here.write(
        [
            Letter("bad-time", encoded(1)[0], 0, event_time_ms=0),
            Letter("undecodable", b"z", 8, event_time_ms=-1),
            Letter("unknown-stream", stranger, 1, key=b"fans"),
            Letter("undecodable", b"x", 2, topic="elsewhere"),
            Letter("undecodable", b"x", 3, partition=7),
            Letter("too-large", b"x" * 1_048_300, 4),
            Letter("undecodable", b"y", 5),
            Letter("wrong-key", stranger, 6, key=b"1"),
        ]
    )
    done = here.resend()
    assert done.refused == {
        "it has no event time: its producer has to send it again, with a timestamp in milliseconds": ["0:0", "0:1"],
        "its key is not its stream's name (wrong-key): its producer has to send it again": ["0:7"],
        "stream fans is still not configured": ["0:2"],
        "it does not come from an input of this application": ["0:3", "0:4"],
        f"with the headers of a resend it is larger than max.message.bytes of {here.names.examples}": ["0:5"],
    }
    assert [row.value for row in here.rows(here.names.examples)] == [b"y"]


LARGE: Sequence[Header] = (("source", b"h" * 400), ("none", None))


def _large_inputs(here: DeadLetterTopics, count: int) -> list[Letter]:
    """Return records of an input, and dead letters that left out headers, then the value, then the key."""
    sender = here.backend.sender()
    large = []
    for number in range(count):
        key, value = b"pumps" + b"k" * 600, b"%d" % number * 1_000
        sender.send(here.names.examples, key, value, START_MS + number, LARGE, 0)
        most = 750 * (3 - number % 3)
        large.append(Letter("too-large", value, number, "examples", START_MS + number, key, LARGE, most_bytes=most))
    sender.flush(DEADLINE_S)
    return large


def test_a_value_that_a_letter_left_out_is_read_from_the_input(world: Callable[..., DeadLetterTopics]) -> None:
    """List, show and resend return the complete record, even if its dead letter had no room for it."""
    here = world()
    large = _large_inputs(here, 3)
    here.write(large)
    letters = here.rows(here.names.dead_letters)
    assert [row.value for row in letters] == [large[0].value, None, None]
    assert [row.key for row in letters] == [large[0].key, large[1].key, None]
    assert [line.size for line in list_letters(here.cluster, here.config, EVERYTHING, 9).lines] == [1_000] * 3
    for number in range(3):
        text = list(show_letter(here.cluster, here.config, RecordId(0, number)).texts())
        assert "value        1,000 bytes" in text
        assert f"header       source: {'h' * 400}" in text
        assert any(line.startswith("  00000000  " + f"3{number} " * 15) for line in text), "its bytes"
    assert here.resend().sent == {("too-large", here.names.examples): 3}
    back = here.rows(here.names.examples)[3:]
    assert [(row.key, row.value, row.timestamp_ms) for row in back] == [
        (letter.key, letter.value, letter.event_time_ms) for letter in large
    ]
    assert all(tuple(row.headers[:2]) == tuple(LARGE) for row in back)
    assert here.marks() == [0, 1, 2]


def test_a_resend_names_the_letters_whose_input_is_gone(world: Callable[..., DeadLetterTopics]) -> None:
    """If retention deleted the input, or its offset has another record, `resend` sends nothing instead, and says so."""
    here = world()
    large = _large_inputs(here, 4)
    here.backend.delete_before(TopicPartition(here.names.examples, 0), 1)
    wrong = [letter._replace(offset=3, value=letter.value and letter.value + b"?") for letter in large[1:3]]
    here.write([large[0], *wrong, large[1]])
    for number, why in enumerate((INPUT_DELETED, INPUT_DIFFERS, INPUT_DIFFERS)):
        with pytest.raises(BooksError) as caught:
            list(show_letter(here.cluster, here.config, RecordId(0, number)).texts())
        origin = f"{here.names.examples}[0] offset {(0, 3, 3)[number]}"
        assert caught.value.lines == (f"{origin}: {why}",)
        assert show_letter(here.cluster, here.config, RecordId(0, number)).to_plain()["problem"] == why
    done = here.resend()
    assert done.refused == {INPUT_DELETED: ["0:0"], INPUT_DIFFERS: ["0:1", "0:2"]}
    assert not done.ok
    assert [row.value for row in here.rows(here.names.examples)][3:] == [large[1].value]


def test_headers_that_nobody_can_read_are_not_dropped_on_the_way(world: Callable[..., DeadLetterTopics]) -> None:
    """The record that is sent back would have lost its headers silently."""
    here = world()
    here.write([Letter("unknown-stream", encoded(1)[0], 0, headers=UNREADABLE_HEADERS)])
    done = here.resend()
    assert list(done.refused.values()) == [["0:0"]]
    assert not here.rows(here.names.examples)


def test_a_resend_reports_records_that_are_too_old_for_the_inputs(world: Callable[..., DeadLetterTopics]) -> None:
    """A record keeps its own time: Kafka deletes it by that, or refuses it together with its whole transaction."""
    here = world(retention_ms=86_400_000, before_max_ms=10 * 365 * 86_400_000)
    for number, time_ms in enumerate((START_MS, SystemClock().now_ms(), START_MS // 1_000)):
        here.write([Letter("undecodable", b"x", number, event_time_ms=time_ms)])
    assert ((done := here.resend()).old.total(), list(done.refused.values())) == (1, [["0:4"]])


def _chosen(world: DeadLetterTopics, **chosen: object) -> list[int]:
    listing = list_letters(world.cluster, world.config, Selection(**chosen), 50)  # type: ignore[arg-type]
    return [line.record_id.offset for line in listing.lines]


def test_dead_letters_are_chosen(world: Callable[..., DeadLetterTopics]) -> None:
    """`list` and `resend` select letters by reason, stream, time, partition and offset, alone and combined."""
    here = world(2)
    here.write(
        [
            Letter("undecodable", b"a", 0),
            Letter("unknown-stream", encoded(1)[0], 1, key=b"other"),
            Letter("undecodable", b"c", 2, key=b"fans"),
            Letter("late-label", codec.encode(Label("fans", "1", 0)), 3, "labels", START_MS + 10),
        ]
    )
    later_ms = here.rows(here.names.dead_letters)[-1].log_time_ms + 1
    deadline = time.monotonic() + DEADLINE_S
    while SystemClock().now_ms() < later_ms:
        assert time.monotonic() < deadline
    here.write([Letter("undecodable", b"d", 0, partition=1)], partition=1)
    assert _chosen(here) == [0, 1, 2, 3, 0], "in the order of the log's time"
    assert _chosen(here, reasons=frozenset({"undecodable", "late-label"})) == [0, 2, 3, 0]
    assert _chosen(here, streams=frozenset({"pumps"})) == [0, 1, 0], "the value's stream goes before the key"
    assert _chosen(here, streams=frozenset({"fans"})) == [2, 3]
    assert _chosen(here, since_ms=later_ms) == [0], "whatever time a record claims, it became a dead letter then"
    assert _chosen(here, until_ms=later_ms) == [0, 1, 2, 3]
    assert _chosen(here, partitions=frozenset({0}), since_ms=later_ms) == []
    assert _chosen(here, record_ids=frozenset({RecordId(0, 2), RecordId(1, 0)})) == [2, 0]
    listing = list_letters(here.cluster, here.config, EVERYTHING, 2)
    assert [line.record_id for line in listing.lines] == [RecordId(0, 3), RecordId(1, 0)], "the newest"
    text = list(listing.texts())
    assert text[0].split("  ")[0] == "record"
    assert f"{here.names.labels}[0]:3" in text[1]
    assert text[1].endswith("no")
    assert text[3:] == [
        "the newest 2 of 5; --limit shows more",
        "5 dead letters, 0 of them sent back",
        "        3 undecodable",
        "        1 unknown-stream",
        "        1 late-label",
    ]
    done = here.resend(Selection(reasons=frozenset({"undecodable"})), limit=2)
    assert (done.sent.total(), done.left) == (2, 1)
    done = here.resend(Selection(reasons=frozenset({"undecodable"})))
    assert (done.sent.total(), done.before) == (1, 2)
    after = list_letters(here.cluster, here.config, EVERYTHING, 50)
    assert [line.is_sent_back for line in after.lines] == [True, False, True, False, True]
    assert list(after.texts())[-3:-1] == ["        3 undecodable, 3 sent back", "        1 unknown-stream"]


def test_a_dead_letter_is_shown_with_every_byte(world: Callable[..., DeadLetterTopics]) -> None:
    """The output has everything that an operator needs to find the cause: the origin, the reason, every byte."""
    here = world()
    headers: Sequence[Header] = (("source", b"a scale\x1b[2J"), ("raw", b"\xff\x00"), ("none", None))
    here.write(
        [
            Letter("conflicting-example", encoded(1)[0], 12, headers=headers),
            Letter("undecodable", b"\x00" * 5_000, 13, key=None),
        ]
    )
    text = list(show_letter(here.cluster, here.config, RecordId(0, 0)).texts())
    for line in (
        f"dead letter  {here.names.dead_letters}[0] offset 0",
        f"from         {here.names.examples}[0] offset 12",
        "reason       conflicting-example",
        "detail       the detail",
        f"event time   2023-11-14 22:13:20.000 UTC ({START_MS} ms)",
        "sent back    no",
        "stream, id   pumps, 0",
        "key          pumps",
        "header       source: b'a scale\\x1b[2J'",
        "header       raw: ff 00",
        "header       none: null",
        "decoded      Example(stream='pumps', id='0', features=(0.5, 0.0), values=None)",
    ):
        assert line in text
    value = encoded(1)[0] or b""
    assert text[-2].startswith(f"  00000000  {value[:16].hex(' ')}  ")
    here.resend(Selection(record_ids=frozenset({RecordId(0, 0)})))
    again = show_letter(here.cluster, here.config, RecordId(0, 0))
    assert any(line.startswith("sent back    at 20") for line in again.texts())
    assert (again.to_plain()["is_sent_back"], again.to_plain()["detail"]) == (True, "the detail")
    text = list(show_letter(here.cluster, here.config, RecordId(0, 1)).texts())
    assert text[-1] == "  and 904 bytes more; --full shows them"
    assert any(line.startswith("detail       the detail; ") for line in text), "what the decoder says"
    whole = show_letter(here.cluster, here.config, RecordId(0, 1)).texts(full=True)
    assert len(list(whole)) == len(text) - 1 + 904 // 16 + 1


def test_a_dead_letter_that_does_not_exist_is_named(world: Callable[..., DeadLetterTopics]) -> None:
    """A typing error must not look like an empty topic."""
    here = world()
    here.write(make_letters(1))
    here.resend()
    end = here.cluster.watermarks(TopicPartition(here.names.dead_letters, 0)).high
    mark = here.rows(here.names.dead_letters)[-1].offset
    for place, message in (
        # Far after the end: the end moves when the broker writes the transaction's last marker.
        (RecordId(0, end + 9), rf"\[0\] has no offset {end + 9}: it has offsets 0 to \d+"),
        (RecordId(3, 0), "has 1 partitions: there is no partition 3"),
        (RecordId(0, 1), "is not a dead letter: it is a control record of a transaction"),
        (RecordId(0, mark), "is not a dead letter: it says that offset 0 was sent back"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            show_letter(here.cluster, here.config, place)
    with pytest.raises(ConfigurationError, match=rf"\[0\] offset {end + 9}: no dead letter here"):
        here.resend(Selection(record_ids=frozenset({RecordId(0, 0), RecordId(0, end + 9)})))
    with pytest.raises(ConfigurationError, match="no reason 'undecodabel'; did you mean undecodable"):
        here.resend(Selection(reasons=frozenset({"undecodabel"})))
    elsewhere = Config.model_validate({"kafka": {"topic_prefix": "nowhere-"}})
    with pytest.raises(TopicError, match="nowhere-dead-letters: the topic does not exist"):
        list_letters(here.cluster, elsewhere, EVERYTHING, 1)


def test_places_and_times_as_they_are_typed() -> None:
    """A time without a zone is UTC; a number and a letter is a time that long ago."""
    assert parse_record_ids(["3:17", "0:0"]) == {RecordId(3, 17), RecordId(0, 0)}
    with pytest.raises(ConfigurationError, match="'17' does not name a dead letter: write partition:offset"):
        parse_record_ids(["17"])
    assert parse_time("2026-01-31", 0) == parse_time("2026-01-31T01:00+01:00", 0) == 1_769_817_600_000
    assert parse_time("90m", 10_000_000) == 10_000_000 - 5_400_000
    with pytest.raises(ConfigurationError, match="'yesterday' is not a time"):
        parse_time("yesterday", 0)
