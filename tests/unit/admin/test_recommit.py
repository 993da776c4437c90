"""`areba state recommit` finds offsets that were lost, or changed from outside, in progress and the changelog."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from stream_app.admin import recommit as recommit_module
from stream_app.admin.recommit import recommit
from stream_app.backends.base import Committed, TopicPartition
from stream_app.cli import clients
from stream_app.cli.main import cli
from stream_app.errors import ConfigurationError, ErrorCode, StateError, UnknownOutcomeError
from stream_app.records import SKIP, Act, Commit
from stream_app.recovery.commit_point import parse_metadata
from stream_app.serialization import codec
from stream_app.snapshot.format import Snapshot, read_manifest
from stream_app.snapshot.skipped_inputs import Gap
from tests.support.damages.world import (
    COUNT,
    _commit_offsets,
    _committed,
    _foreign_offsets,
    _lose_labels_of,
    _lose_offsets,
    _older_offsets,
    _other_digest,
    _other_offsets,
    _processed,
    _to_the_first,
    _unequal_offsets,
)
from tests.support.world import (
    MAX_POLL_INTERVAL_S,
    PARTITIONS,
    World,
    _all_at,
    _config,
    _Dying,
    _never,
    _started,
    _turns,
    _undisturbed,
)


def _recommit(world: World, *tasks: int, dry_run: bool = False) -> list[str]:
    """Run the command after the group has noticed that its members are dead."""
    world.clock.advance(MAX_POLL_INTERVAL_S + 1)
    return list(recommit(world.cluster, world.config, tasks, dry_run=dry_run))


def _lose_labels(world: World) -> None:
    for number in range(PARTITIONS):
        _lose_labels_of(world, number)


@pytest.mark.parametrize(
    "damage",
    [
        _lose_offsets,
        _foreign_offsets,
        _older_offsets,
        _to_the_first,
        _other_offsets,
        _unequal_offsets,
        _lose_labels,
        _other_digest,
    ],
)
def test_damaged_offsets_are_committed_again(damage: Callable[[World], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker refuses such offsets; the command commits the right ones, and later outputs are the same bytes."""
    monkeypatch.setattr("stream_app.recovery.progress_script.MAX_UNNAMED_COMMITS", 0)
    world, member = _processed()
    right, digests = _committed(world), [task.live.model_digest() for task in member.tasks]
    damage(world)
    with pytest.raises(StateError) as caught:
        world.worker().run(_never())
    assert caught.value.code in (ErrorCode.OFFSETS_LOST, ErrorCode.OFFSETS_RESET)
    lines = _recommit(world)
    assert _committed(world) == right
    assert [line.split(":")[0] for line in lines] == ["task 0", "task 1"]
    assert all(f"now {COUNT}/{COUNT} (sequence " in line and "2 snapshots" in line for line in lines)
    again = _started(world.worker())
    _turns(again, until=_all_at(again, COUNT))
    assert [task.live.model_digest() for task in again.tasks] == digests
    assert all(task.report.loaded_sequence > 0 for task in again.tasks)
    world.send(6, first=COUNT)
    _turns(again, until=_all_at(again, COUNT + 6))
    assert world.outputs() == _undisturbed(COUNT, 6)


def test_what_is_right_stays() -> None:
    """On a healthy task, or when run twice, the command changes nothing and says so."""
    world, _ = _processed()
    before = _committed(world)
    lines = _recommit(world)
    assert all(line.endswith("is committed, as it should be") for line in lines)
    assert _committed(world) == before
    _lose_labels_of(world, 1)
    lines = _recommit(world)
    assert lines[0].endswith("as it should be")
    assert lines[1].startswith(f"task 1: committed was {COUNT}/none (sequence ")
    assert _committed(world) == before


def test_looking_changes_nothing() -> None:
    """`--dry-run` prints what the command would commit; `--task` chooses the tasks."""
    world, _ = _processed()
    right = _committed(world)
    _to_the_first(world)
    lost = _committed(world)
    [line] = _recommit(world, 1, dry_run=True)
    assert line.startswith(f"task 1: committed was 0/0 (metadata ''), would be {COUNT}/{COUNT} (sequence ")
    assert _committed(world) == lost
    _recommit(world, 1)
    assert {place.partition for place, known in _committed(world).items() if known == right[place]} == {1}
    with pytest.raises(ConfigurationError, match="there is no task 2: the application has 2"):
        _recommit(world, 2)


def test_workers_must_be_stopped() -> None:
    """A live worker relies on the committed offsets, so the command does not change them under it."""
    world, _ = _processed()
    _to_the_first(world)
    lost = _committed(world)
    with pytest.raises(StateError, match=ErrorCode.WORKERS_RUNNING):
        list(recommit(world.cluster, world.config, ()))
    assert _committed(world) == lost


def test_a_task_that_never_committed() -> None:
    """There is nothing to commit again; the command names offsets that another program has set."""
    world = World()
    assert _recommit(world) == [f"task {number}: never committed anything" for number in range(PARTITIONS)]
    _commit_offsets(world, lambda _: ("", (0, 0)))
    assert _recommit(world, 0) == [
        "task 0: never committed anything; no worker has committed the group's offsets 0/0: delete them"
    ]


def test_an_application_without_snapshots() -> None:
    """Without a snapshot, the next restore begins at the first offset."""
    world, member = _processed(after_ms=10_000)
    digests = [task.live.model_digest() for task in member.tasks]
    _lose_offsets(world)
    assert all("0 snapshots" in line for line in _recommit(world))
    again = _started(world.worker())
    _turns(again, until=_all_at(again, COUNT))
    assert [task.live.model_digest() for task in again.tasks] == digests


def _named(world: World, number: int = 0) -> tuple[Snapshot, ...]:
    place = TopicPartition(world.config.topics.examples, number)
    return parse_metadata(_committed(world)[place].metadata, "test").snapshots


def _forget(world: World, number: int, keep: Callable[[bytes], bool]) -> None:
    log = world.broker._log(TopicPartition(world.config.topics.changelog, number))
    log.entries = [entry for entry in log.entries if keep(entry.key or b"")]


def test_a_snapshot_with_a_hole_is_not_named() -> None:
    """The command names the two newest complete snapshots; a manifest alone restores nothing."""
    world, _ = _processed()
    newest = parse_metadata(next(iter(_committed(world).values())).metadata, "test").point.sequence
    before = _named(world)
    _lose_offsets(world)
    blob = f"{newest}/".encode()
    _forget(world, 0, lambda key: not key.startswith(blob) or b"manifest" in key)
    _recommit(world)
    assert before[0] not in _named(world)
    assert before[1] in _named(world)
    again = _started(world.worker())
    _turns(again, until=_all_at(again, COUNT))


def test_a_snapshot_with_a_tombstone_is_not_named() -> None:
    """Once a manifest has a tombstone, compaction may delete what it lists at any moment."""
    world, _ = _processed()
    before = _named(world)
    place = TopicPartition(world.config.topics.changelog, 0)
    key = world.broker.read(place, before[0].manifest.offset, 1)[0].keys[0]
    world.put("changelog", 0, key, None)
    _lose_offsets(world)
    _recommit(world)
    assert before[0] not in _named(world)
    assert before[1] in _named(world)


def test_a_snapshot_of_another_history_is_not_named() -> None:
    """If a changelog was copied or progress was restored from a backup, sequences can be equal, but digests are not."""
    world, _ = _processed()
    before = _named(world)
    records, *_ = world.broker.read(TopicPartition(world.config.topics.changelog, 0), before[0].manifest.offset, 1)
    manifest = read_manifest(records.values[0] or b"", "test").model_copy(update={"digest": "00" * 32})
    world.put("changelog", 0, records.keys[0], manifest.to_bytes())
    _lose_offsets(world)
    _recommit(world)
    assert len(_named(world)) == 2
    assert _named(world)[0] == before[1]


def test_a_compacted_changelog() -> None:
    """Compaction leaves only what the two newest manifests list, and that is enough."""
    world, _ = _processed()
    before = _committed(world)
    for number in range(PARTITIONS):
        world.broker.compact(TopicPartition(world.config.topics.changelog, number))
    _lose_offsets(world)
    _recommit(world)
    assert _committed(world) == before


@pytest.mark.slow
@pytest.mark.parametrize("commits", range(1, 9))
def test_whenever_the_last_worker_died(commits: int) -> None:
    """A complete snapshot counts even if no offsets name it yet; an incomplete one does not."""
    world = World(_config(worker={"snapshot_after_ms": 0}))
    world.send(COUNT)
    with pytest.raises(UnknownOutcomeError):
        world.worker(transaction=_Dying(world, commits)).run(_never())
    _lose_offsets(world)
    _recommit(world)
    again = _started(world.worker())
    _turns(again, until=_all_at(again, COUNT))
    assert world.outputs() == _undisturbed(COUNT)


def test_long_progress_is_read_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command finds the last commit without decoding weeks of others; for older snapshots it reads further back."""
    monkeypatch.setattr(recommit_module, "TAIL_RECORDS", 2)
    world, _ = _processed()
    before = _committed(world)
    _lose_offsets(world)
    _recommit(world)
    assert _committed(world) == before


def test_foreign_progress_is_refused() -> None:
    """The command commits no offsets that it derived from records of another program."""
    world, _ = _processed()
    world.put("progress", 0, None, b"not ours")
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        _recommit(world)


def test_the_metadata_of_the_release_before() -> None:
    """Older metadata has the right point but names no snapshots; the command adds those that exist."""
    world, _ = _processed()
    right = _committed(world)
    old = {place: parse_metadata(known.metadata, "test").point.metadata() for place, known in right.items()}
    for place, metadata in old.items():
        world.broker.groups.group("app").offsets[place] = Committed(COUNT, metadata)
    _recommit(world)
    assert _committed(world) == right


def test_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The command line prints what was committed and what is committed now."""
    world, _ = _processed()
    _lose_offsets(world)
    world.clock.advance(MAX_POLL_INTERVAL_S + 1)
    monkeypatch.setattr(clients, "connect", lambda _: world.cluster)
    file = tmp_path / "areba.yaml"
    file.write_text("application: {id: app, instance: w}\nstreams: {s0: {features: 1}, s1: {features: 1}}\n")
    asked = CliRunner().invoke(cli, ["state", "recommit", "-c", str(file), "--dry-run"])
    assert "task 1: committed was none/none (no metadata), would be 40/40" in asked.output
    assert _committed(world) == {}
    done = CliRunner().invoke(cli, ["state", "recommit", "-c", str(file), "--task", "0", "--task", "1"])
    assert done.exit_code == 0
    assert "task 1: committed was none/none (no metadata), now 40/40 (sequence " in done.output
    assert len(_committed(world)) == 2 * PARTITIONS


def test_a_snapshot_older_than_a_gap_is_not_named() -> None:
    """An accepted gap fixed the state from which the task continues; an older snapshot is of another history."""
    world, _ = _processed()
    last = [record for record in world.progress(0) if isinstance(record, Commit)][-1]
    ends = last.examples_end, last.labels_end
    gap = Gap(state_sequence=-1, digest=last.digest, processed=(0, 0), start=ends, end=ends)
    world.put("progress", 0, None, codec.encode(Act(last.sequence + 1, SKIP, "0", gap.text())))
    _lose_offsets(world)
    _recommit(world)
    assert not _named(world)
    assert _named(world, 1)
