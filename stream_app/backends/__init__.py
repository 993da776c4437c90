"""The log that an application runs on: the ports, and two implementations of them.

`base` declares the ports: source, transaction, log reader, cluster, sender and clock. The package `kafka` implements
them over Apache Kafka, the package `memory` over a log in this process. `topics` says which topics an application
needs, `progress` how many tasks it has, `partitioner` where a stream belongs, and `reading` reads a partition
record by record. `certificate` explains why a broker's certificate is not trusted; `clock` has the clocks.

May import `serialization` and `config`; only `kafka` may import `confluent_kafka`. Public: `acls`, `base`, `clock`,
`following`, `held_back`, `kafka.cluster`, `kafka.librdkafka.rehearsal`, `kafka.outages`, `kafka.registry.client`,
`kafka.sender`, `kafka.settings`, `kafka.source`, `kafka.transaction`, `memory.broker`, `memory.cluster`,
`memory.sender`, `memory.source`, `memory.transaction`, `partitioner`, `progress`, `questions`, `reading`,
`retention`, `schema_names`, `topics`.
"""
