"""The log that an application runs on: the ports, and their two implementations.

`base` declares the ports (cluster, source, transaction, reader, clock). `kafka` implements them over Apache Kafka and
is the only place that imports its client; `memory` implements them in one process, for tests and trials. The contract
suite holds both to the same behaviour.

May import `serialization` and `config`. Public: the Protocols of `base`, `topics`, `reading`, `partitioner`.
"""
