"""The ports of `backends.base` over a log in this process: trials without a broker, tests that take no time.

`broker` holds the topics, `log` one partition, `groups` the consumer groups. The clients of the broker have a module
each, named as in `backends.kafka`: `source`, `transaction`, `cluster`, `log_reader`, `sender`. What Kafka promises is
kept in the simplest way that keeps it; tests/contract runs one suite over both implementations.

May import `backends.base` and its neighbours, `serialization.left_out`, `records` and `errors`. Public:
`broker.EmbeddedBroker`, and the `Embedded...` class of each client's module.
"""
