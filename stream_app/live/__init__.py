"""A task that takes new records: its batches, its buffers, its breaker and its snapshots.

`live_task` computes batches and says what a transaction has to write for them; read it first. `task_request` and
`restored_state` are what it begins with, `position` says where its state is, `buffers` hold fetched records,
`breaker` decides which streams are stopped, `snapshot_writer` writes snapshots of the task, and `used_retention` says
how long what it has not saved is kept.

May import `backends`, `pipeline` and what is below them. Public: `breaker`, `buffers`, `live_task`, `position`,
`restored_state`, `snapshot_writer`, `task_request`, `used_retention`.
"""
