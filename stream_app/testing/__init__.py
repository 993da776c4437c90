"""Areba in a user's own tests: an application in one process, and a real Kafka that lives as long as a test.

`InProcess` is the real worker over an in-process log. It takes the settings of the configuration file, needs neither
Kafka nor a second process, and gives the results that the same records give on Kafka, bit for bit. It keeps all records
in memory and nothing on disk.

`kafka_broker` starts a Kafka in a container, or else from its jars (`local_kafka`).

May import everything but `cli`; nothing imports this package. Public: `InProcess`, `kafka_broker`.
"""

from typing import TYPE_CHECKING, Any

from stream_app.testing.kafka import KafkaBroker, kafka_broker

if TYPE_CHECKING:
    from stream_app.testing.in_process import InProcess

__all__ = ["InProcess", "KafkaBroker", "kafka_broker"]


def __getattr__(name: str) -> Any:  # noqa: ANN401  (of a module: PEP 562)
    """Import the worker when it is asked for: tests that only want a Kafka need not wait for Numba."""
    if name == "InProcess":
        from stream_app.testing.in_process import InProcess  # noqa: PLC0415  (as above)

        return InProcess
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
