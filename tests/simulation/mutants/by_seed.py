"""Mutants that seeds of the simulation find."""

from collections.abc import Mapping

from tests.simulation.mutants.changes import (
    argument,
    assigned,
    condition,
    drop,
    instead,
    loop,
    replaced,
    returns,
    without,
)
from tests.simulation.mutants.mutant import Mutant

BY_SEED: Mapping[str, Mutant] = {
    "offsets-unsent": Mutant(
        "a transaction carries outputs and progress, but no offsets",
        "stream_app.worker.round_transaction:RoundTransaction._write",
        drop("send_offsets"),
        seed=22,
    ),
    "offsets-one-short": Mutant(
        "the offset of the last record is committed, not the next offset",
        "stream_app.recovery.live_task:LiveTask.compute",
        argument(
            "ComputedBatch",
            2,
            "tuple(int(one.offsets[-1]) if len(one) > 1 else end for one, end in zip(opened.raw, self._positions))",
        ),
    ),
    "markers-unread": Mutant(
        "a batch ends after its last record, although markers of transactions that follow were read",
        "stream_app.recovery.live_task:LiveTask.has_passed_over",
        returns("False"),
    ),
    "room-unheeded": Mutant(
        "a batch is not cut to the records that it may close",
        "stream_app.recovery.live_task:LiveTask._open",
        replaced("fitting == rows", "True"),
    ),
    "rest-lost": Mutant(
        "records for which a batch has no room are lost",
        "stream_app.recovery.live_task:LiveTask._open",
        drop("put_back"),
    ),
    "progress-apart": Mutant(
        "outputs and progress are committed first, and the offsets, which fence, in a second transaction",
        "stream_app.worker.round_transaction:RoundTransaction._write",
        instead("send_offsets", "transaction.commit(); transaction.begin(); {}"),
    ),
    "unknown-is-committed": Mutant(
        "an unknown outcome is taken for a commit",
        "stream_app.worker.rounds:Rounds.settle",
        instead("finish", "try: {}\nexcept UnknownOutcomeError: pass"),
    ),
    "abort-is-committed": Mutant(
        "an aborted transaction is taken for a commit",
        "stream_app.worker.rounds:Rounds.settle",
        instead("finish", "try: {}\nexcept TransactionAbortedError as error: self._observer.aborted(str(error))"),
    ),
    "snapshot-ahead": Mutant(
        "a snapshot is taken while the next batch is computed already",
        "stream_app.recovery.live_task:LiveTask.can_continue",
        without("snapshots"),
    ),
    "ahead-kept": Mutant(
        "after an abort, the batches that were computed from the discarded state are committed",
        "stream_app.worker.rounds:Rounds._seal",
        condition("owns", "False"),
    ),
    "state-kept": Mutant(
        "after an abort the state is kept, although it has already learned from the batch",
        "stream_app.worker.owned_tasks:OwnedTasks.start_over",
        drop("renew"),
    ),
    "unfenced-start": Mutant(
        "a process joins the group without fencing the previous process of the same name",
        "stream_app.backends.memory.transaction:EmbeddedTransaction.initialise",
        assigned("self._epoch", "self._broker._epochs.setdefault(self._id, 0)"),
    ),
    "epoch-unchecked": Mutant(
        "a fenced process still writes: the broker does not check epochs",
        "stream_app.backends.memory.broker:EmbeddedBroker.check_epoch",
        condition("epoch", "False"),
    ),
    "zombies-unchecked": Mutant(
        "offsets of a zombie are accepted: neither member nor generation is checked",
        "stream_app.backends.memory.groups:GroupCoordinator.offsets_problem",
        returns("None"),
    ),
    "aborted-read": Mutant(
        "inputs of aborted transactions are read",
        "stream_app.backends.memory.source:EmbeddedSource._fetch",
        argument("read", "committed", "False"),
    ),
    "replay-skips": Mutant(
        "a replay takes the last label of a range in the next range, and digests are not compared",
        "stream_app.recovery.replay:Replay._replay_commit",
        argument("waiting[1].take", 0, "labels - (labels > 2)") + assigned("digest", "commit.digest"),
    ),
    "replay-further": Mutant(
        "a replay takes all records that were fetched, not only the recorded range",
        "stream_app.recovery.replay:Replay._replay_commit",
        replaced("waiting.rows_below(end)", "waiting.rows_below(end) and len(waiting)"),
    ),
    "configuration-skipped": Mutant(
        "a replay ignores a change of the configuration",
        "stream_app.recovery.replay:Replay._replay_act",
        drop("apply"),
    ),
    "configuration-unrecorded": Mutant(
        "a changed configuration is applied, but not recorded",
        "stream_app.recovery.live_task:LiveTask._acts",
        loop("_pending_acts", "self._pending_acts if self.position.point.sequence < 0 else ()"),
    ),
    "breaker-forgotten": Mutant(
        "the breaker does not count records that are replayed",
        "stream_app.recovery.replay:Replay._replay_commit",
        drop("breaker.count"),
    ),
    "snapshot-breaker": Mutant(
        "the counts of the breaker are not loaded from the snapshot",
        "stream_app.recovery.restore:Restore._move_to",
        drop("load"),
    ),
    "snapshot-chunks": Mutant(
        "the manifest names the offset before each chunk",
        "stream_app.recovery.snapshot_writer:SnapshotWriter.committed",
        argument("setdefault", 1, "offset - 1"),
    ),
    "snapshot-anchor": Mutant(
        "a snapshot names the input offsets before its last batch, not after it",
        "stream_app.recovery.live_task:LiveTask.advance",
        argument("Anchor", 1, "(batch.commit.examples_start, batch.commit.labels_start)"),
    ),
    "trim-too-far": Mutant(
        "progress is deleted up to the last commit, not up to the oldest snapshot in use",
        "stream_app.worker.rounds:Rounds._advance",
        argument("want", 0, "max(part.progress_offsets, default=0)"),
    ),
    "gap-digest": Mutant(
        "after an accepted gap the chain of digests continues from the snapshot, not from the last commit",
        "stream_app.recovery.replay:Replay._replay_act",
        assigned("digest", "position.point.digest"),
    ),
    "hanging-published": Mutant(
        "a task commits while a transaction hangs in its partitions",
        "stream_app.recovery.hanging_transactions:OpenTransactions.holds",
        returns("False"),
    ),
    "hanging-left": Mutant(
        "a process does not end the hanging transactions of its predecessor",
        "stream_app.worker.transaction_watch:TransactionWatch.begin",
        drop("sweep"),
    ),
    "stop-unrecorded": Mutant(
        "the breaker stops a stream, but no act says so",
        "stream_app.recovery.live_task:LiveTask.compute",
        drop("append"),
    ),
    "snapshot-stops": Mutant(
        "the stopped streams are not loaded from the snapshot",
        "stream_app.snapshot.segments:load_task",
        drop("stopped.update"),
    ),
    "one-sided-merge": Mutant(
        "the merge does not wait for the next label",
        "stream_app.worker.rounds:Rounds._step",
        argument("cut", "labels_at_end", "True"),
    ),
    "growth-followed": Mutant(
        "the number of tasks grows with a topic that was given more partitions",
        "stream_app.backends.partition_count:partitions_of",
        without("tasks_of"),
    ),
    "reset-forgets": Mutant(
        "examples and labels that a stream held when it was reset get no outcome",
        "stream_app.pipeline.task:Task.run",
        drop("close"),
    ),
    "reset-unread": Mutant(
        "a restore ignores the reset of a stream",
        "stream_app.recovery.replay:Replay._replay_act",
        instead("apply", "whole.kind == 'reset' or {}"),
    ),
    "keys-unread": Mutant(
        "a record whose key is not its stream's name is given to that stream",
        "stream_app.pipeline.batch:_compare_keys",
        drop("named.kinds[row]"),
    ),
    "never-resumed": Mutant(
        "a partition that was paused because its buffer was full is never resumed",
        "stream_app.worker.task_inputs:TaskInputs.resume_drained",
        drop("resume"),
    ),
    "dead-time": Mutant(
        "a label that waits loses its event time in a snapshot",
        "stream_app.pipeline.stream_state:_columns_of",
        replaced("record.timestamp_ms", "1"),
    ),
    "outputs-unrepaired": Mutant(
        "a restore assumes that all committed outputs can be read",
        "stream_app.recovery.output_logs:OutputPartition.missing",
        returns("frozenset()"),
    ),
    "lost-progress": Mutant(
        "a restore takes every transaction whose progress record cannot be read for aborted",
        "stream_app.recovery.settle:_committed",
        returns("[]"),
    ),
    "snapshot-unfound": Mutant(
        "a restore does not find the snapshots that progress names",
        "stream_app.recovery.changelog:find_snapshots",
        condition("SNAPSHOT_KEY", "False"),
    ),
    "named-unread": Mutant(
        "a snapshot is named before it, and the outputs before it, can be read",
        "stream_app.recovery.live_task:LiveTask.advance",
        instead("self.unnamed_ends", "self.name_snapshot()"),
    ),
    "never-taken-over": Mutant(
        "a worker does not end the hanging transactions of a process that is gone",
        "stream_app.worker.transaction_watch:TransactionWatch._end_gone",
        loop("gone", "()"),
    ),
    "replay-headers-anywhere": Mutant(
        "a dead letter whose input record has a header of `areba dlq replay` is taken for a record of a replay",
        "stream_app.recovery.output_logs:OutputPartition._load",
        condition("is_of_a_replay", 'not any(name.startswith("areba.replay") for name, _ in headers)'),
    ),
    "idle-unsaved": Mutant(
        "a task saves nothing in a pause",
        "stream_app.recovery.snapshot_writer:SnapshotWriter.look",
        assigned("is_idle", "False"),
    ),
    "writers-together": Mutant(
        "a command does not notice that a worker has started, and writes sequences that the worker has written, too",
        "stream_app.admin.progress.writer:ProgressWriter._send",
        drop("send_offsets") + condition("written", "False"),
    ),
    "stop-ignored": Mutant(
        "the records of a stopped stream are learned",
        "stream_app.pipeline.task:Task._route",
        argument("stopped_until", 2, "{}"),
    ),
    "closed-ids-stay": Mutant(
        "an erased id is still known to the join",
        "stream_app.pipeline.erasing:erase",
        assigned("kept", 'np.ones(len(closed["closed_ids"]), np.bool_)'),
    ),
}
"""By name."""
