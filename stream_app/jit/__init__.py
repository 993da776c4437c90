"""Compiled code: the decorators, the cache of compiled code, and memory that compiled code reads by address.

Compiled functions take int64 arrays of addresses (`memory`), because one call then serves all streams of a task.
Arithmetic is in strict IEEE order, so that results are the same on every machine. `README.md` explains the techniques
to a reader who does not know Numba.

May import `config`. Public: `cache`, `columns`, `compiler`, `foreign`, `memory`, `tables`.
"""
