"""Replay data sets and synthetic streams to the topics `examples` and, later, `labels`.

`plan` says what to send, `schedule` when; `events` makes the bytes, `replay` sends them and returns a `manifest`; `cli`
is the command `areba-replay`. `datasets` has the published data sets, `synthetic` generates streams from a seed.

May import `stream_app`, which imports nothing of this package.
"""
