"""`areba erase` from the mark to the changelog: restores, `verify` and `explain` afterwards."""

from stream_app.backends.base import TopicPartition
from stream_app.task_state import TaskState
from stream_app.testing import InProcess
from stream_app.verify.verify import verify
from tests.support.brokers import compact

UNIQUE = 1234.5678


def application(snapshots_ms: int = 0) -> InProcess:
    """Return an application that has learned a person's example, and waits for another's label."""
    made = InProcess(
        streams={"pumps": {"features": 2}},
        learners={"areba": {"method": "areba"}, "relay": {"method": "relay"}},
        worker={"snapshot_after_ms": snapshots_ms},
    )
    for number in range(30):
        features = [UNIQUE if number in {11, 12} else number % 4, 1.0]
        made.send_example("pumps", f"pump-{number}", features)
        if number != 12:
            made.send_label("pumps", f"pump-{number}", number % 2)
        if number % 10 == 9:
            made.run()
    made.send_label("pumps", "pump-early", 1)
    made.run()
    return made


PERSON = ("pump-11", "pump-12", "pump-early")


def live_changelog(made: InProcess) -> bytes:
    """Return all values that the changelog still has after its compaction."""
    topic = made.config.topics.changelog
    compact(made._broker._logs[TopicPartition(topic, 0)])
    return b"".join(row.value or b"" for row in made.rows(topic))


def run_until_idle(made: InProcess) -> None:
    """Let the worker restore its task, and write the snapshots that are due."""
    for _ in range(400):
        made._worker.turn()
        live = [task.live for task in made._worker.tasks if task.state is TaskState.LIVE]
        if live and not live[0].is_saving and not live[0].snapshots.is_due():
            return
    raise AssertionError("a snapshot is not complete after 400 turns")


def test_the_changelog_has_nothing_left_although_no_record_comes() -> None:
    """A task without records would keep the person in the snapshot before the newest one for ever."""
    made = application()
    run_until_idle(made)
    assert all(id_.encode() in live_changelog(made) for id_ in PERSON)
    made.erase("pumps", PERSON)
    made.run()
    run_until_idle(made)
    assert not [id_ for id_ in PERSON if id_.encode() in live_changelog(made)]
    assert [one.outcome for one in made.outcomes() if one.id == "pump-12"] == ["evicted"]
    assert [letter.reason for letter in made.dead_letters()] == ["orphan-label"]


def test_a_restore_gives_the_same_models_wherever_it_begins() -> None:
    """A snapshot from before the mark, the mark in the restore, or a snapshot after it: the bits are the same."""
    digests = set()
    for snapshots_ms, crashes in ((0, ()), (0, (0, 3, 9)), (86_400_000, (0,)), (0, range(12))):
        made = application(snapshots_ms)
        made.erase("pumps", PERSON)
        for turns in crashes:
            for _ in range(turns):
                made._worker.turn()
            made.crash()
        made.run()
        run_until_idle(made)
        (task,) = made._worker.tasks
        digests.add(task.live.model_digest())
        assert not [id_ for id_ in PERSON if id_.encode() in live_changelog(made)]
        assert verify(made._cluster, made.config).findings == ()
    assert len(digests) == 1
