"""What may be larger than the house rules allow, and why (tests/unit/test_architecture.py)."""

from collections.abc import Mapping

TO_DO = "to be split"

EXCEPTIONS: Mapping[tuple[str, str], str] = {
    ("stream_app/records.py", "lines"): TO_DO,  # 436
    ("stream_app/admin/dead_letters.py", "lines"): TO_DO,  # 884
    ("stream_app/admin/inspect_tasks.py", "lines"): TO_DO,  # 448
    ("stream_app/backends/kafka.py", "lines"): TO_DO,  # 1588
    ("stream_app/backends/kafka.py:KafkaCluster", "lines"): TO_DO,  # 304
    ("stream_app/backends/memory.py", "lines"): TO_DO,  # 971
    ("stream_app/backends/memory.py:EmbeddedBroker", "lines"): TO_DO,  # 366
    ("stream_app/cli/main.py", "lines"): TO_DO,  # 633
    ("stream_app/cli/start.py", "lines"): TO_DO,  # 563
    ("stream_app/cli/start.py:replay_dead_letters", "parameters"): TO_DO,  # 10
    ("stream_app/config/settings.py", "lines"): TO_DO,  # 1307
    ("stream_app/join/stream_join.py", "lines"): TO_DO,  # 1444
    ("stream_app/join/stream_join.py:_outcome", "parameters"): TO_DO,  # 10
    ("stream_app/learners/queues.py", "lines"): TO_DO,  # 446
    ("stream_app/learners/queues.py:memory_of", "parameters"): TO_DO,  # 12
    ("stream_app/learners/networks/kernels.py", "lines"): TO_DO,  # 850
    ("stream_app/learners/networks/kernels.py:_step", "parameters"): TO_DO,  # 11
    ("stream_app/learners/networks/kernels.py:_step_block", "parameters"): TO_DO,  # 10
    ("stream_app/pipeline/stream_set.py", "lines"): TO_DO,  # 610
    ("stream_app/pipeline/task.py:_sort_out", "parameters"): TO_DO,  # 10
    ("stream_app/serialization/avro.py", "lines"): TO_DO,  # 453
    ("stream_app/serialization/codec.py", "lines"): TO_DO,  # 891
    ("stream_app/serialization/codec.py:_decode_rows", "lines"): TO_DO,  # 84
    ("stream_app/serialization/codec.py:_decode_rows", "parameters"): TO_DO,  # 19
    ("stream_app/serialization/codec.py:_encode_predictions", "parameters"): TO_DO,  # 13
    ("stream_app/serialization/codec.py:_encode_outcomes", "parameters"): TO_DO,  # 16
    ("stream_app/verify/audit.py", "lines"): TO_DO,  # 1053
    ("stream_app/verify/audit.py:PartitionBooks", "lines"): TO_DO,  # 557
    ("stream_app/verify/verify.py", "lines"): TO_DO,  # 893
    ("stream_app/verify/verify.py:_PartitionCheck", "lines"): TO_DO,  # 428
    ("stream_app/worker/worker.py", "lines"): TO_DO,  # 1076
    ("stream_app/worker/worker.py:Worker", "lines"): TO_DO,  # 898
    ("producers/cli.py:run_command", "parameters"): TO_DO,  # 20
    ("producers/replay.py", "lines"): TO_DO,  # 626
    ("ops/demo.py", "lines"): TO_DO,  # 687
    ("ops/local_kafka.py", "lines"): TO_DO,  # 631
    ("study/", "files"): TO_DO,  # 24
    ("tests/avro_reference.py", "lines"): TO_DO,  # 415
    ("tests/oracle.py", "lines"): TO_DO,  # 496
    ("tests/oracle.py:Oracle", "lines"): TO_DO,  # 323
    ("tests/oracle.py:settle", "parameters"): TO_DO,  # 9
    ("tests/contract/test_dead_letters.py", "lines"): TO_DO,  # 537
    ("tests/kafka/", "files"): TO_DO,  # 22
    ("tests/kafka/support.py", "lines"): TO_DO,  # 667
    ("tests/kafka/test_instances.py", "lines"): TO_DO,  # 450
    ("tests/kafka/test_outcomes.py", "lines"): TO_DO,  # 464
    ("tests/property/test_task.py", "lines"): TO_DO,  # 614
    ("tests/simulation/mutants.py", "lines"): TO_DO,  # 523
    ("tests/simulation/ports.py", "lines"): TO_DO,  # 505
    ("tests/simulation/world.py", "lines"): TO_DO,  # 1030
    ("tests/simulation/world.py:World", "lines"): TO_DO,  # 585
    ("tests/unit/", "files"): TO_DO,  # 72
    ("tests/unit/test_changelog.py", "lines"): TO_DO,  # 419
    ("tests/unit/test_config.py", "lines"): TO_DO,  # 675
    ("tests/unit/test_health.py", "lines"): TO_DO,  # 402
    ("tests/unit/test_replay.py", "lines"): TO_DO,  # 604
    ("tests/unit/test_restore.py", "lines"): TO_DO,  # 849
    ("tests/unit/test_verify.py", "lines"): TO_DO,  # 1130
    ("tests/unit/test_verify_damage.py", "lines"): TO_DO,  # 574
}
"""By name and kind of size."""
