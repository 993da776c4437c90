"""From snapshots and progress to a live task: one sequence of steps, however its last owner ended.

`restore` is that sequence, for a worker and for `areba state list` alike; read it first. It finds and loads a
snapshot (`changelog`), reads progress (`progress_script`), finds out what became of the last transactions (`settle`),
processes the recorded ranges again (`replay`), and returns a `live_task`.

May import `backends`, `pipeline` and what is below them. Public: `breaker`, `buffers`, `changelog`, `commit_point`,
`hanging_transactions`, `live_task`, `output_logs`, `progress_script`, `restore`, `restore_request`, `settle`,
`snapshot_writer`.
"""
