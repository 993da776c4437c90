"""From committed offsets, snapshots and progress to a task that is live: one path, whatever ended the last owner.

A restore settles what the last transactions have become, loads the newest snapshot, replays the recorded ranges and
compares digests; the same path serves a worker and `areba state rebuild`.

May import `backends`, `pipeline` and what is below them. Public: `restore`, `changelog`, `settle`,
`hanging_transactions`.
"""
