"""The `areba` command.

`commands` has one file for each group of commands: a command reads its options, calls one function of another package
and exits with its status. The other modules start a worker: `clients` are made from the configuration, `checks` wait
for Kafka, `warm_up` compiles, `start` joins the group, `restart` replaces the process. Errors become lines.

May import every package of the application; none of them imports this one. Public: `main`; `schemas`
for `areba-replay`; and `process` for the commands of this repository that are not part of the application.
"""
