"""A join of two topics by id in plain confluent-kafka: a dictionary, and a transaction for each batch.

It writes as many outputs as areba, of the same size, and learns nothing. Batches are fetched by `consume` and sent by
`produce_batch`, the fastest calls of the client. Arguments: the brokers, both input topics, the output topic.
"""

import sys

from confluent_kafka import Consumer, Message, Producer

BATCH = 10_000
OUTPUT = bytes(75)
WAIT_S = 0.1


def _joined(messages: list[Message], examples: str, waiting: tuple[set[bytes], set[bytes]]) -> list[dict[str, object]]:
    """Return a prediction for each example, and an outcome for each example with its label, whichever came first."""
    outputs: list[dict[str, object]] = []
    for message in messages:
        key, is_label = message.key() or b"", message.topic() != examples
        if not is_label:
            outputs.append({"key": key, "value": OUTPUT})
        if key in waiting[not is_label]:
            waiting[not is_label].remove(key)
            outputs.append({"key": key, "value": OUTPUT})
        else:
            waiting[is_label].add(key)
    return outputs


def main(servers: str, examples: str, labels: str, output: str) -> None:
    """Join until the process is ended."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": output,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": 65_536,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": output,
            "queue.buffering.max.messages": 1_000_000,
            "linger.ms": 5,
            "batch.size": 1_000_000,
        }
    )
    producer.init_transactions()
    consumer.subscribe([examples, labels])
    waiting: tuple[set[bytes], set[bytes]] = (set(), set())
    while True:
        messages = [message for message in consumer.consume(BATCH, WAIT_S) if message.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        producer.produce_batch(output, _joined(messages, examples, waiting))
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
        )
        producer.commit_transaction()


if __name__ == "__main__":
    main(*sys.argv[1:])
