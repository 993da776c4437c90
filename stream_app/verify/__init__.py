"""`areba verify`: check from the topics alone that every record is accounted for and every result is right.

The checks are written apart from the code that they check. `audit` follows each input record to its fate, `rerun`
computes the outputs again, `metrics_check` counts the metrics again, `manifest_check` compares with
what a replayer sent.

May import `backends`, `pipeline` and what is below them, and neither `worker` nor `recovery`. Public: `verify`.
"""
