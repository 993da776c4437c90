"""Data sets and synthetic streams, replayed onto `examples` and, late, onto `labels`.

`plan` says what to send, `schedule` when, `events` makes the bytes, `replay` sends them and returns a `manifest`; `cli`
is the command `areba-replay`. `datasets` has the published data sets, `synthetic` the streams made from a seed.

May import `stream_app`, which imports nothing of this package.
"""
