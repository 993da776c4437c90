"""One writer of progress at a time: commands next to one another and next to workers; whatever succeeds is applied."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stream_app.admin.models import Application
from stream_app.admin.progress.writer import ProgressWriter, progress_writer
from stream_app.admin.reset import reset
from stream_app.admin.saved_models.export_models import export
from stream_app.admin.saved_models.import_model import import_model
from stream_app.admin.skip import skip
from stream_app.backends.base import TopicPartition
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.errors import StateError, TransactionAbortedError
from stream_app.progress_records import IMPORT, RESET, SKIP, Act, Commit
from stream_app.task_state import TaskState
from stream_app.verify.verify import verify
from tests.contract.backends import outputs
from tests.support.damages.world import committed_offsets
from tests.support.world import MAX_POLL_INTERVAL_S, World, all_at, make_config, started, take_turns

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from stream_app.worker.worker import Worker

COUNT = 20


def _kill(world: World) -> None:
    world.clock.advance(MAX_POLL_INTERVAL_S + 1)


@pytest.fixture
def world() -> World:
    """Return a world whose worker has processed some records and was killed."""
    made = World(make_config(worker={"snapshot_after_ms": 3_600_000}))
    made.send(COUNT)
    take_turns(member := started(made.worker()), until=all_at(member, COUNT))
    _kill(made)
    return made


def _reset(world: World) -> list[str]:
    return list(reset(world.application(), "s0", 0))


def _import(world: World, file: Path) -> list[str]:
    return list(import_model(world.application(), file, "s0", "baseline", 0))


def _skip(world: World) -> list[str]:
    return list(skip(world.application(), [0]))


@pytest.fixture(params=["reset", "import", "skip"])
def command(request: pytest.FixtureRequest, world: World, tmp_path: Path) -> Callable[[], list[str]]:
    """Return each command that writes; the world is such that it has something to write."""
    if request.param == "import":
        file = tmp_path / "model.safetensors"
        export(world.application(), "s0", "baseline", file, 0, None)
        return partial(_import, world, file)
    if request.param == "skip":
        for topic in ("examples", "labels"):
            world.broker.delete_before(TopicPartition(topic, 0), 7)
    return partial({"reset": _reset, "skip": _skip}[request.param], world)


def _after_reading(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Let something happen once, after the next command has begun and before it writes."""
    write = ProgressWriter.write

    def late(self: ProgressWriter, *arguments: Any) -> None:  # noqa: ANN401  (as `write` takes them)
        monkeypatch.setattr(ProgressWriter, "write", write)
        happens()
        write(self, *arguments)

    monkeypatch.setattr(ProgressWriter, "write", late)


def _acts(world: World) -> list[str]:
    kinds = (RESET, IMPORT, SKIP)
    return [record.kind for record in world.progress(0) if isinstance(record, Act) and record.kind in kinds]


def test_of_two_commands_at_once_one_is_refused(
    world: World, command: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that both wrote would write two acts with one sequence, and tell their operators that all is well."""
    _after_reading(monkeypatch, command)
    with pytest.raises(StateError, match=r"nothing was written.*\[in-use"):
        command()
    assert len(_acts(world)) == 1
    sequences = [record.sequence for record in world.progress(0)]
    assert sequences == list(range(len(sequences)))
    world.send(5, first=COUNT)
    take_turns(member := started(world.worker()), until=all_at(member, COUNT + 5))


def test_a_command_that_is_fenced_before_it_has_read(world: World) -> None:
    """It ends as it would later: with the status and the code of a command that can be run again."""
    application = world.application()
    with pytest.raises(StateError, match=r"nothing was written.*\[in-use"), progress_writer(application) as writer:  # noqa: PT012
        _reset(world)
        writer.begin(0)
    assert _acts(world) == [RESET]


def test_a_worker_that_runs_when_the_command_writes(
    world: World, command: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor starts a worker while the command rebuilds the task: the command writes nothing."""
    before, committed = world.rows("progress", 0), committed_offsets(world)
    members: list[Worker] = []

    def start() -> None:
        members.append(started(world.worker(joins=True)))
        members[0].turn()
        members[0].turn()

    _after_reading(monkeypatch, start)
    with pytest.raises(StateError, match=r"workers are running.*\[in-use"):
        command()
    assert (world.rows("progress", 0), committed_offsets(world)) == (before, committed)


def test_a_worker_that_has_come_and_gone(
    world: World, command: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group is empty again, but the task has moved: older offsets and an old sequence would be written."""

    def work() -> None:
        member = started(world.worker())
        world.send(5, first=COUNT, partitions=[1])
        for _ in range(50):
            try:
                member.turn()
            except StateError:
                break
        _kill(world)

    _after_reading(monkeypatch, work)
    acts, committed = _acts(world), {}
    with pytest.raises(StateError, match=r"nothing was written.*\[in-use"):
        command()
    committed = committed_offsets(world)
    assert _acts(world) == acts
    assert committed_offsets(world) == committed


class _Slow(EmbeddedTransaction):
    """A transaction before whose commit, or after it, something happens."""

    before: Callable[[], object] = staticmethod(lambda: None)
    after: Callable[[], object] = staticmethod(lambda: None)

    def commit(self) -> None:
        """Commit."""
        self.before()
        super().commit()
        self.after()


def _slow(world: World, before: Callable[[], object] = tuple, after: Callable[[], object] = tuple) -> Application:
    def opened(name: str) -> _Slow:
        made = _Slow(world.broker, name)
        made.before, made.after = before, after
        return made

    return world.application()._replace(open_transaction=opened)


def test_a_worker_that_joins_before_the_commit_waits_for_it(world: World) -> None:
    """It would restore the task without the act, and write a commit with the sequence of the act."""
    members: list[Worker] = []

    def join() -> None:
        world.send(5, first=COUNT)
        members.append(started(world.worker(joins=True)))
        for _ in range(20):
            members[0].turn()
        assert all(task.number != 0 for task in members[0].tasks), "it has not begun to restore the task"

    assert "starts again" in next(iter(reset(_slow(world, before=join), "s0", 0)))
    take_turns(members[0], until=all_at(members[0], COUNT + 5))
    assert _acts(world) == [RESET]
    assert verify(world.cluster, world.config, rerun=True).ok


def test_a_commit_whose_answer_is_lost(world: World) -> None:
    """An operator who reads that it failed runs the command again, and resets the stream twice."""
    assert "starts again" in next(iter(reset(_slow(world, after=_fail), "s0", 0)))
    assert _acts(world) == [RESET]


def _fail() -> None:
    raise TransactionAbortedError("the answer was lost")


def test_a_commit_that_failed(world: World) -> None:
    """An operator who reads that it succeeded believes that the model is gone."""
    with pytest.raises(TransactionAbortedError):
        list(reset(_slow(world, before=_fail), "s0", 0))
    assert not _acts(world)
    assert "starts again" in _reset(world)[0]


def test_a_transaction_that_hangs_in_progress(world: World) -> None:
    """Its records may have been committed: a worker has to find out before anything else is written."""
    other = EmbeddedTransaction(world.broker, "app/w", timeout_s=3600.0)
    other.initialise()
    other.begin()
    other.produce(TopicPartition(world.config.topics.progress, 0), outputs([b"x"]))
    with pytest.raises(StateError, match=r"Start a worker.*\[held-back"):
        _reset(world)


def test_a_dry_run_fences_nobody(world: World) -> None:
    """An operator may look while another one works, and while workers run."""
    with progress_writer(world.application()) as writer:
        writer.begin(0)
        assert "would start again" in next(iter(reset(world.application(), "s0", 0, dry_run=True)))
        writer.write(0, [Act(world.progress(0)[-1].sequence + 1, RESET, "0", "s0")])
    assert _acts(world) == [RESET]


def test_a_new_application_takes_models(tmp_path: Path, world: World) -> None:
    """Nothing is committed yet, so the command has no offsets of inputs with which to refuse workers."""
    file = tmp_path / "model.safetensors"
    export(world.application(), "s0", "baseline", file, 0, None)
    config = make_config(application={"id": "second"})
    new = World(config)
    with progress_writer(new.application()) as writer:
        writer.begin(0)
        member = started(new.worker(joins=True))
        member.turn()
        with pytest.raises(StateError, match=r"workers are running.*\[in-use"):
            writer.write(0, [Act(0, RESET, "0", "s0")])
    _kill(new)
    assert "continues from digest" in list(import_model(new.application(), file, "s0", "baseline", 0))[-1]
    new.send(3)
    take_turns(member := started(new.worker()), until=all_at(member, 3))
    assert [task.state for task in member.tasks] == [TaskState.LIVE] * 2
    assert any(isinstance(record, Commit) for record in new.progress(0))
