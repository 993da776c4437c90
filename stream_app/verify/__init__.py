"""`areba verify`: check from the topics alone that every record is accounted for and every result is right.

The checks are written apart from the code that they check. `audit` compares every output with the reference join,
`metrics.recount` counts the metrics again, and `second_run` runs all stages of the application again, and keeps where
it ended.

May import `backends`, `pipeline` and what is below them, and neither `worker` nor `recovery`. Public: `verify`.
"""
