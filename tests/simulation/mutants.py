"""Mutants: known ways to break the code. The simulation or a test must find each, which proves that they can fail.

A mutant replaces some lines of one file while that file is imported; the file itself does not change. A mutant whose
lines are no longer in the file is an error, since it would prove nothing. To add a mutant, add a row; `hunt` runs it.
"""

import ast
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from stream_app.jit.cache import PACKAGE, base_folder, folder_of, is_compiled_in, sources_of

ROOT = Path(__file__).parents[2]


class Mutant(NamedTuple):
    """One way to break the code.

    Attributes:
        what: The fault that the mutant causes.
        file: The file, relative to the root.
        function: The function or method that has the lines, as `Class.method`; "" for the complete file.
        lines: The lines to replace, which occur once; all but the first without the first one's indentation.
        instead: The lines of the mutant.
        found_by: The tests that must fail; if there are none, a seed of the simulation must fail.
    """

    what: str
    file: str
    function: str
    lines: str
    instead: str
    found_by: tuple[str, ...] = ()


MUTANTS: Mapping[str, Mutant] = {
    "offsets-unsent": Mutant(
        "a transaction carries outputs and progress, but no offsets",
        "stream_app/worker/round_transaction.py",
        "RoundTransaction._write",
        "transaction.send_offsets(content.offsets, content.group)",
        "pass",
    ),
    "offsets-one-short": Mutant(
        "the offset of the last record is committed, not the next offset",
        "stream_app/live/live_task.py",
        "LiveTask.compute",
        "self._positions",
        "tuple(int(one.offsets[-1]) if len(one) > 1 else end for one, end in zip(opened.raw, self._positions))",
    ),
    "markers-unread": Mutant(
        "a batch ends after its last record, although markers of transactions that follow were read",
        "stream_app/live/live_task.py",
        "LiveTask.has_passed_over",
        "any(map(int.__gt__, self._positions, self.position.offsets))",
        "False",
    ),
    "room-unheeded": Mutant(
        "a batch is not cut to the records that it may close",
        "stream_app/live/live_task.py",
        "LiveTask._open",
        "if fitting == rows:",
        "if fitting:",
    ),
    "rest-lost": Mutant(
        "records for which a batch has no room are lost",
        "stream_app/live/live_task.py",
        "LiveTask._open",
        "waiting.put_back(records.rows(count, len(records)))",
        "pass",
    ),
    "progress-apart": Mutant(
        "outputs and progress are committed first, and the offsets, which fence, in a second transaction",
        "stream_app/worker/round_transaction.py",
        "RoundTransaction._write",
        "transaction.send_offsets(content.offsets, content.group)",
        "transaction.commit(); transaction.begin(); transaction.send_offsets(content.offsets, content.group)",
    ),
    "unknown-is-committed": Mutant(
        "an unknown outcome is taken for a commit",
        "stream_app/worker/rounds.py",
        "Rounds.settle",
        "except TransactionAbortedError as error:",
        "except UnknownOutcomeError:\n    pass\nexcept TransactionAbortedError as error:",
    ),
    "abort-is-committed": Mutant(
        "an aborted transaction is taken for a commit",
        "stream_app/worker/rounds.py",
        "Rounds.settle",
        "self._tasks.start_over([part.task for part in parts], error)\nreturn",
        "self._observer.aborted(str(error))",
    ),
    "snapshot-ahead": Mutant(
        "a snapshot is taken while the next batch is computed already",
        "stream_app/live/live_task.py",
        "LiveTask.can_continue",
        " or self.snapshots.is_due()",
        "",
    ),
    "ahead-kept": Mutant(
        "after an abort, the batches that were computed from the discarded state are committed",
        "stream_app/worker/rounds.py",
        "Rounds._seal",
        "if not self._tasks.owns(task):",
        "if False:",
    ),
    "limit-forgotten": Mutant(
        "after a record that was too large, the topic's limit is not read again",
        "stream_app/worker/owned_tasks.py",
        "OwnedTasks.start_over",
        "if isinstance(error, RecordTooLargeError):",
        "if False:",
        ("tests/unit/worker/test_wrong_records.py::test_a_limit_that_was_lowered_is_read_again",),
    ),
    "state-kept": Mutant(
        "after an abort the state is kept, although it has already learned from the batch",
        "stream_app/worker/owned_tasks.py",
        "OwnedTasks.start_over",
        "for task in tasks:",
        "for task in ():",
    ),
    "revoked-kept": Mutant(
        "a task that comes back continues, although another worker has committed for it",
        "stream_app/worker/kept_tasks.py",
        "KeptTasks.take",
        "if task.position.progress_end == progress_end:",
        "if True:",
        ("tests/unit/worker/test_rebalances.py::test_a_task_is_restored_if_another_worker_has_committed_for_it",),
    ),
    "unfenced-start": Mutant(
        "a process joins the group without fencing the previous process of the same name",
        "stream_app/backends/memory/transaction.py",
        "EmbeddedTransaction.initialise",
        "self._epoch = self._broker.initialise(self._id)",
        "self._epoch = max(0, self._broker._epochs.get(self._id, 0)); self._broker._epochs[self._id] = self._epoch",
    ),
    "epoch-unchecked": Mutant(
        "a fenced process still writes: the broker does not check epochs",
        "stream_app/backends/memory/broker.py",
        "EmbeddedBroker.check_epoch",
        "if current != epoch:",
        "if False:",
    ),
    "zombies-unchecked": Mutant(
        "offsets of a zombie are accepted: neither member nor generation is checked",
        "stream_app/backends/memory/groups.py",
        "GroupCoordinator.offsets_problem",
        "if metadata.member not in group.members:",
        "metadata = metadata._replace(generation=group.generation)\nif False:",
    ),
    "aborted-read": Mutant(
        "inputs of aborted transactions are read",
        "stream_app/backends/memory/source.py",
        "EmbeddedSource._fetch",
        "records, following, at_end = self._broker.read(partition, self._next[partition], left)",
        "from stream_app.backends.memory.log import columns; "
        "following = min(self._next[partition] + left, self._broker._log(partition).stable()); "
        "entries = [e for e in self._broker._log(partition).entries"
        " if self._next[partition] <= e.offset < following and not e.is_marker]; "
        "records, at_end = columns(entries), following == self._broker._log(partition).stable()",
    ),
    "replay-skips": Mutant(
        "a replay takes the last label of a range in the next range, and digests are not compared",
        "stream_app/recovery/replay.py",
        "Replay._replay_commit",
        "take(labels)\n"
        "outputs = state.task.step(*inputs)\n"
        "digest = chain_digest(position.point.digest, ranges, outputs)\n"
        "now_s = self._clock.monotonic_s()\n"
        "state.snapshots.worked(now_s - start_s, inputs, now_s)\n"
        "if digest != commit.digest:",
        "take(labels - (labels > 2))\noutputs = state.task.step(*inputs)\ndigest = commit.digest\nif False:",
    ),
    "replay-further": Mutant(
        "a replay takes all records that were fetched, not only the recorded range",
        "stream_app/recovery/replay.py",
        "Replay._replay_commit",
        "waiting.rows_below(end)",
        "waiting.rows_below(end) and len(waiting)",
    ),
    "configuration-skipped": Mutant(
        "a replay ignores a change of the configuration",
        "stream_app/recovery/replay.py",
        "Replay._replay_act",
        "state.task.apply(whole)",
        "pass",
    ),
    "configuration-unrecorded": Mutant(
        "a changed configuration is applied, but not recorded",
        "stream_app/live/live_task.py",
        "LiveTask._acts",
        "for kind, text in self._pending_acts:",
        "for kind, text in self._pending_acts if self.position.point.sequence < 0 else ():",
    ),
    "breaker-forgotten": Mutant(
        "the breaker does not count records that are replayed",
        "stream_app/recovery/replay.py",
        "Replay._replay_commit",
        "state.breaker.count(outputs.judged, outputs.stream_names)",
        "pass",
    ),
    "zombie-parked": Mutant(
        "a worker that reads the progress of the next owner takes it for damage",
        "stream_app/worker/restorer.py",
        "Restorer._judge",
        "if end != task.position.progress_end:",
        "if False:",
        ("tests/unit/recovery/test_restore_refused.py::test_a_zombie_that_wakes_while_restoring_is_no_damage",),
    ),
    "snapshot-breaker": Mutant(
        "the counts of the breaker are not loaded from the snapshot",
        "stream_app/recovery/restore.py",
        "Restore._move_to",
        "self._breaker.load(manifest.malformed)",
        "pass",
    ),
    "snapshot-chunks": Mutant(
        "the manifest names the offset before each chunk",
        "stream_app/live/snapshot_writer.py",
        "SnapshotWriter.committed",
        "places.setdefault(chunk.key, offset)",
        "places.setdefault(chunk.key, offset - 1)",
    ),
    "snapshot-anchor": Mutant(
        "a snapshot names the input offsets before its last batch, not after it",
        "stream_app/live/live_task.py",
        "LiveTask.advance",
        "Anchor(*batch.point, batch.offsets, progress_offsets[-1])",
        "Anchor(*batch.point, (batch.commit.examples_start, batch.commit.labels_start), progress_offsets[-1])",
    ),
    "trim-too-far": Mutant(
        "progress is deleted up to the last commit, not up to the oldest snapshot in use",
        "stream_app/worker/rounds.py",
        "Rounds._advance",
        "want(live.needed_progress)",
        "want(max(part.progress_offsets, default=0))",
    ),
    "gap-digest": Mutant(
        "after an accepted gap the chain of digests continues from the snapshot, not from the last commit",
        "stream_app/recovery/replay.py",
        "Replay._replay_act",
        "read_gap(act.text).digest if act.kind == SKIP else position.point.digest",
        "position.point.digest",
    ),
    "hanging-published": Mutant(
        "a task commits while a transaction hangs in its partitions",
        "stream_app/lost_markers/hanging_transactions.py",
        "OpenTransactions.holds",
        "return any(place.partition == number for place in self._waiting)",
        "return False",
    ),
    "hanging-overlooked": Mutant(
        "an answer counts for transactions that were opened after the question",
        "stream_app/lost_markers/hanging_transactions.py",
        "OpenTransactions.add",
        "self._question = None",
        "pass",
        ("tests/unit/backends/test_slow_brokers.py::test_an_answer_says_nothing_about_what_was_opened_later",),
    ),
    "hanging-left": Mutant(
        "a process does not end the hanging transactions of its predecessor",
        "stream_app/worker/transaction_watch.py",
        "TransactionWatch.begin",
        "self.sweep(open_places(self._ports.cluster, places))",
        "pass",
    ),
    "stop-forgotten": Mutant(
        "a restore counts malformed records from before a stop",
        "stream_app/recovery/replay.py",
        "Replay._replay_act",
        "state.breaker.forget(read_stop(whole.text).stream)",
        "pass",
        ("tests/unit/live/test_stopped_streams.py::test_a_resume_counts_for_the_next_owner",),
    ),
    "stop-unrecorded": Mutant(
        "the breaker stops a stream, but no act says so",
        "stream_app/live/live_task.py",
        "LiveTask.compute",
        "self._pending_acts.append(_PendingAct(STOP, stop.text))",
        "pass",
    ),
    "snapshot-stops": Mutant(
        "the stopped streams are not loaded from the snapshot",
        "stream_app/snapshot/segments.py",
        "load_task",
        "task.stopped.update(manifest.stopped)",
        "pass",
    ),
    "one-sided-merge": Mutant(
        "the merge does not wait for the next label",
        "stream_app/worker/rounds.py",
        "Rounds._step",
        "labels_at_end=labels.at_end and len(labels) <= limit",
        "labels_at_end=True",
    ),
    "growth-followed": Mutant(
        "the number of tasks grows with a topic that was given more partitions",
        "stream_app/backends/progress.py",
        "partitions_of",
        "return tasks_of(cluster, found[names.progress]) or found[names.progress].partitions",
        "return found[names.progress].partitions",
    ),
    "reset-forgets": Mutant(
        "examples and labels that a stream held when it was reset get no outcome",
        "stream_app/pipeline/task.py",
        "Task.run",
        "close(leftovers, self._streams, collector, 0, Cause.RESET)",
        "pass",
    ),
    "reset-unread": Mutant(
        "a restore ignores the reset of a stream",
        "stream_app/recovery/replay.py",
        "Replay._replay_act",
        "state.task.apply(whole)",
        "whole.kind == 'reset' or state.task.apply(whole)",
    ),
    "keys-unread": Mutant(
        "a record whose key is not its stream's name is given to that stream",
        "stream_app/pipeline/batch.py",
        "_compare_keys",
        "named.kinds[row] = MALFORMED",
        "pass",
    ),
    "never-resumed": Mutant(
        "a partition that was paused because its buffer was full is never resumed",
        "stream_app/worker/task_inputs.py",
        "TaskInputs.resume_drained",
        "self._source.resume(drained)",
        "pass",
    ),
    "dead-time": Mutant(
        "a label that waits loses its event time in a snapshot",
        "stream_app/pipeline/stream_state.py",
        "_columns_of",
        "[record.timestamp_ms for record in records]",
        "[1 for record in records]",
    ),
    "outputs-unrepaired": Mutant(
        "a restore assumes that all committed outputs can be read",
        "stream_app/lost_markers/output_logs.py",
        "OutputPartition.missing",
        "return frozenset(outstanding)",
        "return frozenset()",
    ),
    "lost-progress": Mutant(
        "a restore takes every transaction whose progress record cannot be read for aborted",
        "stream_app/lost_markers/settle.py",
        "_committed",
        "return best",
        "return []",
    ),
    "snapshot-unfound": Mutant(
        "a restore does not find the snapshots that progress names",
        "stream_app/recovery/changelog.py",
        "find_snapshots",
        "if key == SNAPSHOT_KEY else None",
        "if key is None and value is None else None",
    ),
    "named-unread": Mutant(
        "a snapshot is named before it, and the outputs before it, can be read",
        "stream_app/live/live_task.py",
        "LiveTask.advance",
        "self.unnamed_ends = dict(written)",
        "self.name_snapshot()",
    ),
    "never-taken-over": Mutant(
        "a worker does not end the hanging transactions of a process that is gone",
        "stream_app/worker/transaction_watch.py",
        "TransactionWatch._end_gone",
        "for name, chosen in gone.items():",
        "for name, chosen in ():",
    ),
    "replay-headers-anywhere": Mutant(
        "a dead letter whose input record has a header of `areba dlq replay` is taken for a record of a replay",
        "stream_app/lost_markers/output_logs.py",
        "OutputPartition._load",
        "if not is_of_a_replay(headers):",
        'if not any(name.startswith("areba.replay") for name, _ in headers):',
    ),
    "configuration-early": Mutant(
        "a configuration is applied although its batch, and so its act, may not fit the transaction",
        "stream_app/live/live_task.py",
        "LiveTask.compute",
        "if not must:",
        "if False:",
        ("tests/unit/pipeline/test_bounds.py::test_a_configuration_that_is_not_recorded_yet_is_in_no_snapshot",),
    ),
    "idle-unsaved": Mutant(
        "a task saves nothing in a pause",
        "stream_app/live/snapshot_writer.py",
        "SnapshotWriter.look",
        "is_idle = now.s >= since_s",
        "is_idle = False",
    ),
    "retention-ignored": Mutant(
        "a task that is never idle saves nothing before its inputs are deleted",
        "stream_app/live/snapshot_writer.py",
        "SnapshotWriter.look",
        "is_old = _used(self._unsaved, logs, now) >= RETENTION_SHARE",
        "is_old = False",
        (
            "tests/unit/worker/retention/test_retention_watch.py::test_a_task_that_is_never_idle_saves_its_state_in_time",
        ),
    ),
    "writers-together": Mutant(
        "a command does not notice that a worker has started, and writes sequences that the worker has written, too",
        "stream_app/admin/progress/writer.py",
        "ProgressWriter._send",
        "transaction.send_offsets({progress: self._ends[task]}, group)\nif written[0] != self._ends[task]:",
        "if False:",
    ),
    "stop-ignored": Mutant(
        "the records of a stopped stream are learned",
        "stream_app/pipeline/task.py",
        "Task._route",
        "stopped_until(batch, len(self._streams), self.stopped,",
        "stopped_until(batch, len(self._streams), {},",
    ),
    # Found by tests: the simulation runs the same code on both sides, or never reaches this state.
    "deletion-ignored": Mutant(
        "a live task does not notice that needed inputs were deleted",
        "stream_app/live/snapshot_writer.py",
        "SnapshotWriter.look",
        "is_gone = _are_gone(self._unsaved, logs)",
        "is_gone = False",
        ("tests/unit/worker/retention/test_retention_watch.py::test_deleted_inputs_lead_to_a_snapshot_at_once",),
    ),
    "repair-unsaved": Mutant(
        "a repair prevents snapshots until the next record comes",
        "stream_app/recovery/replay.py",
        "Replay._replay_act",
        "position.has_changed |= act.kind not in (REPAIR, SNAPSHOT)",
        "position.has_changed |= act.kind != SNAPSHOT",
        ("tests/unit/worker/retention/test_retention_watch.py::test_a_repair_does_not_prevent_a_snapshot",),
    ),
    "turned-forgotten": Mutant(
        "a restore loses the count of corrected labels",
        "stream_app/pipeline/stream_state.py",
        "",
        "join.Counter.CORRECTED_POSITIVES,",
        "join.Counter.POSITIVES,",
        ("tests/property/test_snapshot.py::test_corrected_classes_are_counted_after_a_restore",),
    ),
    "anchor-unchecked": Mutant(
        "a snapshot of another history is accepted if its sequence is the same",
        "stream_app/recovery/progress_script.py",
        "ProgressScript._check_anchor",
        "or record.digest != position.point.digest:",
        "or False:",
        ("tests/unit/recovery/test_changelog_damage.py::test_a_snapshot_of_another_history_is_refused",),
    ),
    "erased-segments-listed": Mutant(
        "a snapshot lists segments of older snapshots, which still have what was erased",
        "stream_app/snapshot/segments.py",
        "Book.draft",
        "if stream.is_new:",
        "if False:",
        ("tests/unit/pipeline/test_erasing.py::test_no_byte_of_a_snapshot_or_of_a_model_is_left",),
    ),
    "erasure-unsaved": Mutant(
        "a task takes no snapshots after an erasure, so the changelog keeps what was erased",
        "stream_app/live/snapshot_writer.py",
        "SnapshotWriter.purge",
        "self._purges = PURGES",
        "pass",
        ("tests/unit/recovery/test_erase.py::test_the_changelog_has_nothing_left_although_no_record_comes",),
    ),
    "erased-rows-stay": Mutant(
        "queues keep the rows of erased examples",
        "stream_app/learners/methods/erasing.py",
        "erase_queued",
        "gone = erased(queues.ids[rows])",
        "gone = np.zeros(len(rows), np.bool_)",
        ("tests/unit/pipeline/test_erasing.py::test_queues_keep_the_others_in_order",),
    ),
    "closed-ids-stay": Mutant(
        "an erased id is still known to the join",
        "stream_app/pipeline/erasing.py",
        "erase",
        'kept = ~ids.among(np.asarray(closed["closed_ids"]))',
        'kept = np.ones(len(closed["closed_ids"]), np.bool_)',
    ),
    "mark-excluded": Mutant(
        "verify expects no outcome of an example that has exactly the time of a pair of marks",
        "stream_app/verify/reference_join.py",
        "ReferenceJoin.mark",
        "self.close_until(stream, mark.time_ms or 0, Cause",
        "self.close_until(stream, (mark.time_ms or 0) - 1, Cause",
        ("tests/unit/verify/test_verify_join_rules.py::test_an_example_of_the_very_time_of_a_mark_that_was_left_open",),
    ),
    "digest-without-headers": Mutant(
        "the chain of digests leaves out the headers of outputs",
        "stream_app/pipeline/outputs.py",
        "chain_digest",
        "digest.update(repr(sorted((row, list(headers)) for row, headers in records.headers.items())).encode())",
        "pass",
        ("tests/unit/pipeline/test_outputs.py::test_the_digest_sees_every_cell",),
    ),
    "seeds-run-together": Mutant(
        "learners get the same seed if their names and their streams' concatenate to the same text",
        "stream_app/pipeline/stream.py",
        "seed_of",
        'struct.pack("<I", len(part)) + part for part in parts',
        "part for part in parts",
        ("tests/unit/learners/test_task_learners.py::test_no_two_learners_have_one_seed",),
    ),
    "gap-unread": Mutant(
        "a worker does not notice records that others wrote between its own",
        "stream_app/worker/round_transaction.py",
        "RoundTransaction._gaps",
        "for part in parts:",
        "for part in ():",
        ("tests/unit/lost_markers/test_settle.py::test_the_second_of_two_writers_ends",),
    ),
    "foreign-unread": Mutant(
        "a restore takes records of other writers for those of the task",
        "stream_app/lost_markers/output_logs.py",
        "OutputPartition.first_foreign",
        "own = list(self._windows(records))",
        "return None",
        ("tests/unit/lost_markers/test_settle.py::test_a_first_start_on_outputs_of_somebody_else_is_refused",),
    ),
    # These files are compiled, which takes minutes for each mutant: so there is one for each of three stages.
    "tie-to-labels": Mutant(
        "of an example and a label with the same time, the label goes first",
        "stream_app/pipeline/merge.py",
        "_merge",
        "example_times[example] <= label_times[label]",
        "example_times[example] < label_times[label]",
        ("tests/property/test_task.py::test_task_does_what_the_model_does",),
    ),
    "majority-as-large": Mutant(
        "AREBA's majority queue has the capacity of the minority queue, not one less",
        "stream_app/learners/methods/areba.py",
        "_adapt",
        "capacities[minority] - 1",
        "capacities[minority]",
        ("tests/property/test_learner_oracle.py::test_memories_over_whole_runs",),
    ),
    "challenger-draws-the-past": Mutant(
        "RELAY's challenger draws from all examples that are kept, not from those after the alarm",
        "stream_app/learners/methods/relay/relay.py",
        "_next_batch",
        "tallies[RECENT + k] if is_challenger else learner.queues.lengths[k]",
        "learner.queues.lengths[k]",
        ("tests/unit/learners/test_relay.py::test_relay_is_what_its_description_says",),
    ),
    "gates-of-drawn-examples": Mutant(
        "RELAY predicts with feature gates, but learns without them",
        "stream_app/learners/methods/relay/relay.py",
        "_draw_examples",
        "pass_gates(own, state.batch, at)",
        "pass",
        ("tests/unit/learners/test_relay.py::test_relay_is_what_its_description_says",),
    ),
    "stale-block": Mutant(
        "a snapshot lists a block of a long queue that has changed since it was written",
        "stream_app/snapshot/segments.py",
        "_without_blocks",
        "held is None or _checksum(held) != checksum_of(content)",
        "held is None",
        ("tests/property/test_snapshot.py::test_long_queues_are_loaded_after_every_record",),
    ),
    "second-moment": Mutant(
        "Adam's second moment decays as fast as its first",
        "stream_app/learners/networks/adam.py",
        "",
        "_KEEP2, _TAKE2 = np.float32(BETA2), np.float32(1 - BETA2)",
        "_KEEP2, _TAKE2 = _KEEP1, _TAKE1",
        ("tests/property/test_learner_oracle.py::test_scores_of_a_task",),
    ),
    "schema-ids-forgotten": Mutant(
        "after a restart, schema ids that only the progress topic has are unknown",
        "stream_app/live/live_task.py",
        "LiveTask.start",
        "self._request.settings.with_schema_ids(self.task.settings.schema_ids)",
        "self._request.settings",
        ("tests/unit/worker/test_wire_formats.py::test_a_new_schema_id_is_recorded_and_never_asked_for_again",),
    ),
    "registry-unawaited": Mutant(
        "while the registry is away, records with a new schema id become dead letters",
        "stream_app/live/live_task.py",
        "LiveTask._knows_schemas",
        "return ids is not None and not ids",
        "return not ids",
        ("tests/unit/worker/test_wire_formats.py::test_a_registry_that_is_away_stops_the_task_alone",),
    ),
}
"""The mutants by name. The simulation finds most of them; `found_by` names the tests that find the others."""


def change(name: str) -> tuple[Path, str]:
    """Apply a mutant to the source of its file; return the file's path and the changed source.

    Raises:
        LookupError: There is no such mutant, or its lines do not occur exactly once.
    """
    mutant = MUTANTS[name]
    path = ROOT / mutant.file
    source = path.read_text()
    start, end = _place(source, mutant.function) if mutant.function else (0, len(source))
    part = source[start:end]
    first = next((line for line in part.splitlines() if mutant.lines.splitlines()[0] in line), "")
    indent = "\n" + first[: len(first) - len(first.lstrip())]
    lines, instead = (text.replace("\n", indent) for text in (mutant.lines, mutant.instead))
    if part.count(lines) != 1:
        raise LookupError(
            f"mutant {name}: its lines occur {part.count(lines)} times in {mutant.file} {mutant.function}"
        )
    changed = source[:start] + part.replace(lines, instead) + source[end:]
    ast.parse(changed)
    return path, changed


def _place(source: str, function: str) -> tuple[int, int]:
    """Return where a function begins and ends in the source."""
    nodes: list[ast.stmt] = ast.parse(source).body
    node: ast.stmt | None = None
    for name in function.split("."):
        node = next((one for one in nodes if getattr(one, "name", "") == name), None)
        if node is None:
            raise LookupError(f"there is no {function}")
        nodes = getattr(node, "body", [])
    assert node is not None
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts[node.lineno - 1], starts[node.end_lineno or node.lineno]


def _copy_unaffected(path: Path, folder: Path) -> None:
    """Copy the compiled code of all files that do not include this one."""
    for source in PACKAGE.rglob("*.py"):
        if is_compiled_in(source) and path not in sources_of(source):
            kept = folder_of(source)
            shutil.copytree(kept, folder / kept.relative_to(base_folder().parent))


@contextmanager
def mutated(name: str) -> Iterator[dict[str, str]]:
    """Yield the environment in which a Python process, and each that it starts, runs a mutant (`site`).

    The cache finds compiled code by the contents of a file, which do not change here. So a mutant of compiled code
    gets its own cache, with the code of all files that do not include it.
    """
    path, changed = change(name)
    paths = (str(Path(__file__).parent / "site"), str(ROOT), os.environ.get("PYTHONPATH", ""))
    with tempfile.TemporaryDirectory(prefix="areba-mutant-") as folder:
        file = Path(folder) / path.name
        file.write_text(changed)
        changes = {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "AREBA_TEST_MUTATION": f"{path}{os.pathsep}{file}",
        }
        if is_compiled_in(path):
            _copy_unaffected(path, Path(folder))
            changes["AREBA_CACHE_DIR"] = folder
        yield {**os.environ, **changes}
