"""What programs and people outside of areba may rely on: it changes in major versions only."""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module

from ops.reference.text import sentence, table
from ops.reference.worker import log_events
from stream_app import client, schemas, testing
from stream_app.config import Config
from stream_app.serialization.public_types import PUBLIC_TYPES

MODULES: Mapping[str, Sequence[str]] = {
    "stream_app.client": client.__all__,
    "stream_app.testing": testing.__all__,
    "stream_app.records": ("Example", "Label", "Mark", "MarkKind", "Prediction", "Outcome", "Metric", "MetricWindow"),
    "stream_app.serialization.codec": ("encode", "decode_one"),
    "stream_app.lanes": ("lane_of", "stream_of"),
    "stream_app.backends.kafka.sender": ("KafkaSender",),
}
"""The modules that a program of a user may import, and the names that it may take from them."""


def promises_section() -> Iterator[str]:
    """Yield what may be relied on, in tables and lists."""
    yield "The following changes in major versions only. Everything else may change in any version.\n"
    yield "Python:\n"
    yield from table(
        ("module", "name", "meaning"),
        (
            (f"`{module}`", f"`{name}`", _meaning(getattr(import_module(module), name)))
            for module, names in MODULES.items()
            for name in names
        ),
    )
    yield f"Schemas of the input and output topics (see [Records](#records)): {_listed(public_schemas())}.\n"
    yield (
        "[Settings](#settings), by their names, with their defaults and meanings: those of a learner, and of "
        f"{_listed(Config.model_fields)}. Settings of librdkafka and of the registry's client are not areba's.\n"
    )
    yield (
        "[Log lines](#log-lines), by their first words, with their level and their `key=value` pairs: "
        f"{_listed(sorted({name for name, _, _ in log_events()}))}.\n"
    )
    yield (
        "[Commands](#commands) with their options, exit statuses and `--json`; [error codes](#error-codes), codes of "
        "[findings](#findings-of-verify) and [problems](#problems-that-inspect-finds), [task states](#task-states), "
        "[dead-letter reasons](#dead-letter-reasons) and headers; names and labels of [metrics](#metrics).\n"
    )


def public_schemas() -> Sequence[str]:
    """Return the names of the schemas that other programs read or write, such as `example.v1`."""
    public = {record.__name__.lower() for record in PUBLIC_TYPES}
    return [f"{name}.v{version}" for name, version in schemas.sources() if name in public]


def _meaning(promised: object) -> str:
    return sentence((inspect.getdoc(promised) or "").partition("\n\n")[0])


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
