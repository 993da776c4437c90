"""`python -m ops.demo`: the complete path of the data on a real Kafka, with a worker killed half-way, and a check.

    broker -> topics -> two workers, one group -> replay of six streams -> kill, restart -> table, figure, verification

The demo ends by itself, and stops everything that it started, however it ends. `run` has the course of the demo,
`streams` its data and configuration, `reprocessing` the thread that sends, `view` what people see while it runs, and
`interruption` the handling of Ctrl-C.
"""
