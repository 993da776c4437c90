"""The command `python -m ops.local_kafka up | status | down`, for people.

It starts Apache Kafka from its jars, with `stream_app.testing.local_kafka`. What `up` starts runs until `down`.
"""
