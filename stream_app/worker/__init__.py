"""The process that owns tasks: it polls, restores and computes the tasks, commits and stops; one thread, one loop.

`worker.Worker` is the loop. `owned_tasks` holds the tasks of the current assignment, `restorer` makes them live, and
`rounds` computes and commits their batches. All of them emit events, which `reports` writes to the log, counts, and
answers from over HTTP. Public: `ports`, `reports.events`, `reports.figures`, `reports.http`, `reports.metrics`,
`reports.observer`, `round_transaction`, `worker`.
"""
