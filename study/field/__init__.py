"""The comparison of the field: methods on the survey's generators at the survey's length, `python -m study.field`.

`streams` has the streams and the subset for slow methods, `methods` the rows of the table, `thresholds` the classes
that follow from the application's calibrated probability, `scoring` the measures. `run` runs what `results` does not
have yet. `ranks` has the tests over streams; `report` and `pictures` write the page, `study/results/field.md`. The file
`field.md` beside this folder registers subset, tests and claims.
"""
