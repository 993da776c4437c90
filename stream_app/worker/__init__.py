"""The process that owns tasks: it polls, restores and computes the tasks, commits and stops; one thread, one loop.

`worker.Worker` is the loop. `owned_tasks` holds the tasks of the current assignment, `restorer` makes them live, and
`rounds` computes and commits their batches. `observer` writes the log, and `pages` answers over HTTP. Public:
`observer`, `pages.health`, `pages.http`, `ports`, `round_transaction`, `worker`.
"""
