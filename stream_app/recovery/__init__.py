"""From snapshots and progress to a live task: one sequence of steps, however its last owner ended.

`restore` is that sequence, for a worker and for `areba state list` alike; read it first. It finds and loads a
snapshot (`changelog`), reads progress (`progress_script`), finds out what became of the last transactions
(`lost_markers.settle`), processes the recorded ranges again (`reprocessing`), and returns a `live.live_task`.

May import `live`, `lost_markers` and what is below them. Public: `changelog`, `progress_script`, `refusals`,
`restore`, `restore_request`.
"""
