"""Follow a running application from its topics alone: what `areba watch` and `areba tail` show.

`figures` is what a front end shows: one frozen dataclass for each stream and learner. `model` computes them from
decoded records; it is pure, and its memory is bounded. `watcher` reads the topics into the model. `table` is the view
in a terminal, and `tail` gives decoded records one by one. Every other front end needs `watcher` and `figures` only.

May import `backends`, `serialization` and `config`. Nothing here writes to a topic or joins a group. Public:
`colours`, `drift`, `figures`, `lanes`, `model`, `table`, `tail`, `watcher`.
"""
