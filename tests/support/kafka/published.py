"""Predictions on a real broker, as workers write them: in transactions, of which one was aborted."""

from contextlib import closing

from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.record_columns import OutputRecords
from stream_app.records import Outcome, Prediction
from stream_app.serialization import codec

ABORTED = Prediction(
    "pumps",
    "aborted",
    "areba",
    champion=True,
    score=0.5,
    probability=0.25,
    predicted_class=0,
    model_version=0,
    event_time_ms=1,
)

PREDICTIONS = tuple(
    Prediction(
        "pumps",
        f"pump-{number}",
        "areba",
        champion=True,
        score=0.25 * number,
        probability=0.125 * number,
        predicted_class=0,
        model_version=number,
        event_time_ms=1_767_225_600_000,
    )
    for number in range(3)
)
OUTCOME = Outcome("pumps", "pump-2", "joined", 1, "areba", 0.5, 0.25, 1, 1_000, 2, 0, 1_767_225_600_000)

_FOREVER = {"retention.ms": "-1"}
_TIME_MS = 1_767_225_600_000


def publish(servers: str) -> None:
    """Create the topics `predictions` and `outcomes`; write an aborted prediction first, then what is committed."""
    KafkaCluster(servers).create([TopicInfo(name, 1, _FOREVER) for name in ("predictions", "outcomes")], 1)
    predictions, outcomes = TopicPartition("predictions", 0), TopicPartition("outcomes", 0)
    with closing(KafkaTransaction(servers, "areba/test")) as transaction:
        transaction.begin()
        transaction.produce(predictions, _records(ABORTED))
        transaction.flush()
        transaction.abort()
        transaction.begin()
        transaction.produce(predictions, _records(*PREDICTIONS))
        transaction.produce(outcomes, _records(OUTCOME))
        transaction.commit()


def _records(*found: Prediction | Outcome) -> OutputRecords:
    values = [codec.encode(record) for record in found]
    return OutputRecords.of([b"pumps"] * len(found), values, [_TIME_MS] * len(found))
