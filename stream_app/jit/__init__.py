"""Compiled code: the decorators, the cache of compiled code, and memory that compiled code walks over.

Compiled functions take arrays of integers that hold addresses (`memory`), because one call then serves all streams of a
task. Arithmetic is in strict IEEE order, so that results are the same on every machine.

May import `config`. Public: `compiler.compiled` and its variants, `memory`, `cache.base_folder`.
"""
