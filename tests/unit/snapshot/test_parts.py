"""Long acts in progress: no record grows with the number of streams, and every reader gets the complete text."""

from dataclasses import replace

import pytest

from stream_app.admin.inspect_tasks import inspect
from stream_app.admin.models import Application, rebuild
from stream_app.errors import ErrorCode, StateError
from stream_app.progress_records import CONFIGURATION, Act, Commit
from stream_app.serialization import codec
from stream_app.snapshot.parts import PART_CHARACTERS, WholeActs, in_parts, whole_acts
from stream_app.verify.verify import verify
from stream_app.worker.worker import Worker
from tests.support.world import World, all_at, make_config, started, take_turns

LARGEST_BYTES = 500_000


def _act(text: str, sequence: int = 3) -> Act:
    return Act(sequence, CONFIGURATION, "2.0", text, rules=2, partitions=6)


@pytest.mark.parametrize("length", [0, 1, PART_CHARACTERS, PART_CHARACTERS + 1, 3 * PART_CHARACTERS - 1])
def test_a_text_comes_back_whole(length: int) -> None:
    """Characters of four bytes are the largest possible."""
    act = _act("".join(map(chr, range(0x1F600, 0x1F640))) * (length // 64) + "x" * (length % 64))
    parts = in_parts(act)
    assert len(parts) == max(1, -(-length // PART_CHARACTERS))
    assert [part.sequence for part in parts] == list(range(3, 3 + len(parts)))
    assert all(len(codec.encode(part)) < LARGEST_BYTES for part in parts)
    acts = WholeActs()
    *before, last = [acts.add(part) for part in parts]
    assert before == [None] * (len(parts) - 1)
    assert last == replace(act, sequence=parts[-1].sequence)


def test_parts_that_do_not_follow_are_refused() -> None:
    """Settings with a gap would be other settings, if they can be read at all."""
    one, two, three = in_parts(_act("x" * 3 * PART_CHARACTERS))
    for wrong in (
        [one, three],
        [two],
        [one, one, three],
        [one, replace(two, sequence=9)],
        [one, replace(two, parts=2)],
    ):
        with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
            list(whole_acts(wrong))
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        in_parts(_act("x" * (1_000 * PART_CHARACTERS + 1)))


def test_parts_without_an_end_count_for_nothing() -> None:
    """Their writer died, and the next writer wrote the act again."""
    one, _ = in_parts(_act("x" * (PART_CHARACTERS + 1)))
    assert list(whole_acts([one, *in_parts(_act("short", 4))])) == [_act("short", 4)]


def _of(world: World) -> Application:
    return world.application()


def _digests(member: Worker) -> list[object]:
    return [task.live.task.model_digests() for task in member.tasks]


def test_every_reader_puts_the_parts_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore with and without a snapshot, rebuild, inspect and verify all read two configurations in parts."""
    monkeypatch.setattr("stream_app.snapshot.parts.PART_CHARACTERS", 300)
    world = World()
    world.send(10)
    take_turns(member := started(world.worker()), until=all_at(member, 10))
    assert len([record for record in world.progress(0) if isinstance(record, Act)]) > 3
    world.config = make_config(streams={"s0": {"features": 1}, "s1": {"features": 1}, "more": {"features": 2}})
    world.send(10, first=10)
    take_turns(member := started(world.worker()), until=all_at(member, 20))
    acts = [record for record in world.progress(0) if isinstance(record, Act)]
    assert [record.sequence for record in world.progress(0)] == list(range(len(world.progress(0))))
    assert len(list(whole_acts(acts))) == 2
    for snapshot_after_ms in (0, 3_600_000):
        world.config = make_config(
            streams={"s0": {"features": 1}, "s1": {"features": 1}, "more": {"features": 2}},
            worker={"snapshot_after_ms": snapshot_after_ms},
        )
        take_turns(again := started(world.worker()), until=all_at(again, 20))
        assert _digests(again) == _digests(member)
    commits = [record for record in world.progress(0) if isinstance(record, Commit)]
    for commit in (commits[0], commits[-1]):
        rebuild(_of(world), 0, (commit.examples_end, commit.labels_end))
    assert inspect(world.cluster, world.config, ()).ok
    report = verify(world.cluster, world.config)
    assert report.ok, report.findings


def test_a_configuration_whose_writer_died_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """`areba state import` writes before the first worker; if it is killed half-way, the task must still start."""
    monkeypatch.setattr("stream_app.snapshot.parts.PART_CHARACTERS", 300)
    world = World()
    parts = in_parts(Act(0, CONFIGURATION, "2.0", world.config.task_settings().to_json()))
    for part in parts[:2]:
        world.put("progress", 0, None, codec.encode(part))
    world.send(10)
    for _ in range(2):
        take_turns(member := started(world.worker()), until=all_at(member, 10))
    assert [record.sequence for record in world.progress(0)] == list(range(len(world.progress(0))))
    report = verify(world.cluster, world.config)
    assert report.ok, report.findings
