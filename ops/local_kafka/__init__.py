"""A local Apache Kafka from its published jars: no container, no installation, only Java and Maven.

`plan` decides addresses and settings, `jars` fetches Kafka, `processes` handles the brokers' processes. Brokers listen
on free ports of 127.0.0.1 and keep everything in one folder, with the cluster's id and ports in `cluster.json`.

What `cluster.start` starts ends with the process that called it, even if that is killed: a small shell process waits
for the end of a pipe that the caller holds, then kills the brokers. What `python -m ops.local_kafka up` starts runs
until `down`.
"""
