"""Mutants that tests find: the simulation runs the same code on both sides, or never reaches the state."""

from collections.abc import Mapping

from tests.simulation.mutants.changes import argument, assigned, condition, drop, loop, replaced, returns, without
from tests.simulation.mutants.mutant import Mutant

BY_TEST: Mapping[str, Mutant] = {
    "limit-forgotten": Mutant(
        "after a record that was too large, the topic's limit is not read again",
        "stream_app.worker.owned_tasks:OwnedTasks.start_over",
        condition("RecordTooLargeError", "False"),
        found_by=("tests/unit/worker/test_wrong_records.py::test_a_limit_that_was_lowered_is_read_again",),
    ),
    "revoked-kept": Mutant(
        "a task that comes back continues, although another worker has committed for it",
        "stream_app.worker.kept_tasks:KeptTasks.take",
        condition("progress_end", "True"),
        found_by=(
            "tests/unit/worker/test_rebalances.py::test_a_task_is_restored_if_another_worker_has_committed_for_it",
        ),
    ),
    "zombie-parked": Mutant(
        "a worker that reads the progress of the next owner takes it for damage",
        "stream_app.worker.restorer:Restorer._judge",
        condition("progress_end", "False"),
        found_by=(
            "tests/unit/recovery/test_restore_refused.py::test_a_zombie_that_wakes_while_restoring_is_no_damage",
        ),
    ),
    "hanging-overlooked": Mutant(
        "an answer counts for transactions that were opened after the question",
        "stream_app.recovery.hanging_transactions:OpenTransactions.add",
        drop("self._question"),
        found_by=("tests/unit/backends/test_slow_brokers.py::test_an_answer_says_nothing_about_what_was_opened_later",),
    ),
    "stop-forgotten": Mutant(
        "a restore counts malformed records from before a stop",
        "stream_app.recovery.replay:Replay._replay_act",
        drop("forget"),
        found_by=("tests/unit/recovery/test_stopped_streams.py::test_a_resume_counts_for_the_next_owner",),
    ),
    "configuration-early": Mutant(
        "a configuration is applied although its batch, and so its act, may not fit the transaction",
        "stream_app.recovery.live_task:LiveTask.compute",
        condition("must", "False"),
        found_by=(
            "tests/unit/pipeline/test_bounds.py::test_a_configuration_that_is_not_recorded_yet_is_in_no_snapshot",
        ),
    ),
    "retention-ignored": Mutant(
        "a task that is never idle saves nothing before its inputs are deleted",
        "stream_app.recovery.snapshot_writer:SnapshotWriter.look",
        assigned("is_old", "False"),
        found_by=(
            "tests/unit/worker/retention/test_retention_watch.py::test_a_task_that_is_never_idle_saves_its_state_in_time",
        ),
    ),
    "deletion-ignored": Mutant(
        "a live task does not notice that needed inputs were deleted",
        "stream_app.recovery.snapshot_writer:SnapshotWriter.look",
        assigned("is_gone", "False"),
        found_by=(
            "tests/unit/worker/retention/test_retention_watch.py::test_deleted_inputs_lead_to_a_snapshot_at_once",
        ),
    ),
    "repair-unsaved": Mutant(
        "a repair prevents snapshots until the next record comes",
        "stream_app.recovery.replay:Replay._replay_act",
        replaced("(REPAIR, SNAPSHOT)", "(SNAPSHOT,)"),
        found_by=("tests/unit/worker/retention/test_retention_watch.py::test_a_repair_does_not_prevent_a_snapshot",),
    ),
    "turned-forgotten": Mutant(
        "a restore loses the count of corrected labels",
        "stream_app.pipeline.stream_state",
        replaced("join.Counter.CORRECTED_POSITIVES", "join.Counter.POSITIVES"),
        found_by=("tests/property/test_snapshot.py::test_corrected_classes_are_counted_after_a_restore",),
    ),
    "anchor-unchecked": Mutant(
        "a snapshot of another history is accepted if its sequence is the same",
        "stream_app.recovery.progress_script:ProgressScript._check_anchor",
        without("digest"),
        found_by=("tests/unit/recovery/test_changelog_damage.py::test_a_snapshot_of_another_history_is_refused",),
    ),
    "erased-segments-listed": Mutant(
        "a snapshot lists segments of older snapshots, which still have what was erased",
        "stream_app.snapshot.segments:Book.draft",
        condition("is_new", "False"),
        found_by=("tests/unit/pipeline/test_erasing.py::test_no_byte_of_a_snapshot_or_of_a_model_is_left",),
    ),
    "erasure-unsaved": Mutant(
        "a task takes no snapshots after an erasure, so the changelog keeps what was erased",
        "stream_app.recovery.snapshot_writer:SnapshotWriter.purge",
        drop("self._purges"),
        found_by=("tests/unit/recovery/test_erase.py::test_the_changelog_has_nothing_left_although_no_record_comes",),
    ),
    "erased-rows-stay": Mutant(
        "queues keep the rows of erased examples",
        "stream_app.learners.methods.erasing:erase_queued",
        assigned("gone", "np.zeros(len(rows), np.bool_)"),
        found_by=("tests/unit/pipeline/test_erasing.py::test_queues_keep_the_others_in_order",),
    ),
    "mark-excluded": Mutant(
        "verify expects no outcome of an example that has exactly the time of a pair of marks",
        "stream_app.verify.reference_join:ReferenceJoin.mark",
        argument("close_until", 1, "(mark.time_ms or 0) - 1"),
        found_by=(
            "tests/unit/verify/test_verify_join_rules.py::test_an_example_of_the_very_time_of_a_mark_that_was_left_open",
        ),
    ),
    "digest-without-headers": Mutant(
        "the chain of digests leaves out the headers of outputs",
        "stream_app.pipeline.outputs:chain_digest",
        loop("headers", "()"),
        found_by=("tests/unit/pipeline/test_outputs.py::test_the_digest_sees_every_cell",),
    ),
    "seeds-run-together": Mutant(
        "learners get the same seed if their names and their streams' concatenate to the same text",
        "stream_app.pipeline.stream:seed_of",
        replaced('struct.pack("<I", len(part)) + part', "part"),
        found_by=("tests/unit/learners/test_task_learners.py::test_no_two_learners_have_one_seed",),
    ),
    "gap-unread": Mutant(
        "a worker does not notice records that others wrote between its own",
        "stream_app.worker.round_transaction:RoundTransaction._gaps",
        loop("parts", "()"),
        found_by=("tests/unit/recovery/test_settle.py::test_the_second_of_two_writers_ends",),
    ),
    "foreign-unread": Mutant(
        "a restore takes records of other writers for those of the task",
        "stream_app.recovery.output_logs:OutputPartition.first_foreign",
        returns("None"),
        found_by=("tests/unit/recovery/test_settle.py::test_a_first_start_on_outputs_of_somebody_else_is_refused",),
    ),
    "tie-to-labels": Mutant(
        "of an example and a label with the same time, the label goes first",
        "stream_app.pipeline.merge:_merge",
        replaced("example_times[example] <= label_times[label]", "example_times[example] < label_times[label]"),
        found_by=("tests/property/test_task.py::test_task_does_what_the_model_does",),
    ),
    "majority-as-large": Mutant(
        "AREBA's majority queue has the capacity of the minority queue, not one less",
        "stream_app.learners.methods.areba:_adapt",
        replaced("capacities[minority] - 1", "capacities[minority]"),
        found_by=("tests/property/test_learner_oracle.py::test_memories_over_whole_runs",),
    ),
    "challenger-draws-the-past": Mutant(
        "RELAY's challenger draws from all examples that are kept, not from those after the alarm",
        "stream_app.learners.methods.relay.relay:_next_batch",
        assigned("kept", "learner.queues.lengths[k]"),
        found_by=("tests/unit/learners/test_relay.py::test_relay_is_what_its_description_says",),
    ),
    "gates-of-drawn-examples": Mutant(
        "RELAY predicts with feature gates, but learns without them",
        "stream_app.learners.methods.relay.relay:_draw_examples",
        drop("pass_gates"),
        found_by=("tests/unit/learners/test_relay.py::test_relay_is_what_its_description_says",),
    ),
    "stale-block": Mutant(
        "a snapshot lists a block of a long queue that has changed since it was written",
        "stream_app.snapshot.segments:_without_blocks",
        without("_checksum"),
        found_by=("tests/property/test_snapshot.py::test_long_queues_are_loaded_after_every_record",),
    ),
    "second-moment": Mutant(
        "Adam's second moment decays as fast as its first",
        "stream_app.learners.networks.adam",
        assigned("_KEEP2, _TAKE2", "_KEEP1, _TAKE1"),
        found_by=("tests/property/test_learner_oracle.py::test_scores_of_a_task",),
    ),
    "schema-ids-forgotten": Mutant(
        "after a restart, schema ids that only the progress topic has are unknown",
        "stream_app.recovery.live_task:LiveTask.start",
        replaced("self._request.settings.with_schema_ids(self.task.settings.schema_ids)", "self._request.settings"),
        found_by=(
            "tests/unit/worker/test_wire_formats.py::test_a_new_schema_id_is_recorded_and_never_asked_for_again",
        ),
    ),
    "registry-unawaited": Mutant(
        "while the registry is away, records with a new schema id become dead letters",
        "stream_app.recovery.live_task:LiveTask._knows_schemas",
        replaced("ids is not None", "True"),
        found_by=("tests/unit/worker/test_wire_formats.py::test_a_registry_that_is_away_stops_the_task_alone",),
    ),
}
"""By name."""
