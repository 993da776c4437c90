"""From committed offsets, snapshots and progress to a live task: one sequence of steps, however its last owner ended.

`restore` is that sequence, for a worker and for `areba state rebuild` alike; read it first. It loads a snapshot
(`changelog`), reads progress (`progress_script`), finds out what became of the last transactions (`settle`), processes
the recorded ranges again (`replay`), and returns a `live_task`.

May import `backends`, `pipeline` and what is below them. Public: `commit_point`, `restore`, `restore_request`,
`live_task`, `changelog`, `output_logs`, `hanging_transactions`.
"""
