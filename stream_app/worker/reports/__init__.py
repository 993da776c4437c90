"""What a worker reports. It emits `events` to its `observer`, which passes them to `log`, `counting` and `health`.

`counting` keeps `figures` of the declared `metrics`; `http` serves them, and the health. Nothing here knows the worker.
"""
