"""The process that owns tasks: it polls, steps the tasks, commits, restores and stops; one thread, one loop.

`events` declares all that a worker logs, `metrics` all that it counts; `health` and `http` answer `/alive`, `/ready`
and `/metrics`.

May import `recovery`, `backends`, `pipeline` and what is below them. Public: `worker.Worker`, `events.Observer`.
"""
