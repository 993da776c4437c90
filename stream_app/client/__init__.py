"""Read what areba publishes, in a program of your own.

`decode` turns the value of a record, in Avro or JSON, into one of the classes named here; where the application writes
Confluent's wire format, `ConfluentDecoder` does. They need fastavro alone, as the installation without extras has it.
Use any consumer, with `isolation.level=read_committed`.

May import `serialization`, of which it uses `json_value`, `one_value` and `public_types`. Public: all names in
`__all__`; they change in major versions only.
"""

from stream_app.client.decoder import ConfluentDecoder, decode
from stream_app.errors import UndecodableError, WrongSchemaError
from stream_app.records import Example, Label, Mark, Metric, MetricWindow, Outcome, Prediction

__all__ = [
    "ConfluentDecoder",
    "Example",
    "Label",
    "Mark",
    "Metric",
    "MetricWindow",
    "Outcome",
    "Prediction",
    "UndecodableError",
    "WrongSchemaError",
    "decode",
]
