"""A running application whose stream gets columns: what was learned stays, and `areba verify` finds nothing."""

import random
from collections.abc import Mapping
from typing import Any

from stream_app.config import Config
from stream_app.records import Metric, Outcome, Value
from stream_app.serialization.codec import decode_one
from stream_app.testing import InProcess
from stream_app.verify.verify import verify

BEFORE = {"amount": "number", "country": {"category": {"most": 2}}}
AFTER = {
    "new": {"missing": "mean"},
    "amount": {"missing": "mean"},
    "shop": {"category": {"hashed": 3}, "missing": "mean"},
    "country": {"category": {"most": 4}},
}
COUNT = 150


def sections(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with these columns."""
    return {
        "application": {"id": "app", "instance": "in-process"},
        "streams": {
            "cards": {
                "columns": columns,
                "costs": {"false_positive": 1, "false_negative": "amount"},
                "threshold": {"alerts": 0.3},
                "drift": {"reference_examples": 50, "window_examples": 50},
            }
        },
        "learners": {"areba": {"method": "areba", "scaler": "standard"}, "relay": {"method": "relay"}},
        "join": {"ttl_ms": 10_000},
        "metrics": {"every_labels": 20},
    }


def values_of(number: int) -> dict[str, Value]:
    """Return the values of an example by its number: class 1 has large amounts."""
    draw = random.Random(number)
    return {
        "amount": draw.gauss(5 if number % 3 == 0 else 1, 1),
        "country": draw.choice(["DE", "FR", "IT", "ES", "PT"]),
    }


def send(log: InProcess, first: int, more: Mapping[str, Value]) -> None:
    """Send examples with labels that come 40 examples later."""
    for number in range(first, first + COUNT):
        log.send_example("cards", f"e{number}", {**values_of(number), **more})
        if number >= 40:
            log.send_label("cards", f"e{number - 40}", int((number - 40) % 3 == 0))
    log.run()


def test_new_columns_keep_what_was_learned() -> None:
    """Whoever adds a column must not lose the model, the open examples, or the guarantees."""
    log = InProcess(**sections(BEFORE))
    send(log, 0, {})
    log.config = Config.model_validate(sections(AFTER))
    log.crash()
    for number in range(120, 130):  # the producer restarts, too, and repeats records of which it does not know
        log.send_example("cards", f"e{number}", values_of(number))
    send(log, COUNT, {"new": 3.0, "shop": "a"})
    outcomes = [decode_one(row.value or b"") for row in log.rows(log.config.topics.outcomes)]
    kinds = [outcome.outcome for outcome in outcomes if isinstance(outcome, Outcome)]
    assert (kinds.count("joined"), kinds.count("duplicate")) == (2 * COUNT - 40, 10)
    assert not list(log.rows(log.config.topics.dead_letters))
    metrics = [decode_one(row.value or b"") for row in log.rows(log.config.topics.metrics)]
    last = {metric.learner: metric.main_window.gmean for metric in metrics if isinstance(metric, Metric)}
    assert set(last) == {"areba", "relay"}
    assert min(gmean or 0 for gmean in last.values()) > 0.8
    assert not verify(log._cluster, log.config, rerun=True).findings
