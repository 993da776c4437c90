"""The ports of `backends.base` over Apache Kafka.

No other package imports `confluent_kafka` (librdkafka). Each port has a module: `source` reads inputs as a member of a
consumer group, `transaction` writes outputs and offsets atomically, `cluster` administers topics and groups,
`log_reader` reads one partition without a group, `sender` writes records for tools. `settings` decides how clients are
configured, `errors` decides what follows from an error of the client.

May import `backends.base` and its neighbours, `records` and `errors`. Public: `source.KafkaSource`,
`transaction.KafkaTransaction`, `cluster.KafkaCluster`, `log_reader.KafkaLogReader`, `sender.KafkaSender`,
`outages.Outages`.
"""
