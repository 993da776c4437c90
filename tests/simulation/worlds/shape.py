"""The shape of a world: everything that a seed decides before the world starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any, NamedTuple

from stream_app.config import Config, Corrections
from stream_app.pipeline.transaction_bounds import TRANSACTION, Room
from tests.simulation.faults import Fault, Swarm, draw_swarm
from tests.simulation.ports import (
    Pace,
)
from tests.simulation.worlds.inputs import (
    DAY_MS,
    LATE_STREAM,
    StreamOf,
    draw_records,
    draw_trouble,
    with_headers,
    with_thresholds,
)
from tests.support.formats.wire_formats import SECTION, reframed
from tests.support.rows import Sent

SMALLEST_BYTES = 1_500
"""The size of a dead letter without its own headers, value and key is below this."""


CONFLUENT_SHARE = 0.25
"""The share of worlds whose values are in Confluent's wire format."""


THRESHOLDS_SHARE = 0.25
"""The share of worlds in which marks promote thresholds."""


COLUMNS_SHARE = 0.15
"""The share of worlds whose first stream has columns."""

WITH_COLUMNS: Mapping[str, Any] = {
    "columns": {"amount": {"missing": "mean"}, "country": {"category": {"most": 1}}},
    "missing_values": [""],
}
"""The settings of such a stream: four features, as many as a world allows."""


class Choice(NamedTuple):
    """The parts of a configuration; few enough that each is created once. With `room`, unknown streams have models.

    `streams` has the number of features of each; 0: it has columns.
    """

    learners: int
    join: int
    breaker: int
    worker: int
    snapshots: int
    streams: tuple[tuple[str, int], ...]
    change: int
    corrections: Corrections
    room: int
    is_confluent: bool
    fading_factors: tuple[float, ...]
    decisions: int
    headers: int


LEARNERS: Sequence[Mapping[str, Any]] = (
    {"areba": {"method": "areba", "budget": 4}},
    {"areba": {"method": "areba", "budget": 6, "scaler": "standard"}},
    {"areba": {"method": "areba", "budget": 4}, "sliding": {"method": "sliding", "window": 3}},
    {
        "areba": {"method": "areba", "budget": 4},
        "qbr": {"method": "qbr", "budget": 4, "scaler": "standard"},
        "baseline": {"method": "baseline", "l2": 0.01},
    },
    {
        "areba": {"method": "areba", "budget": 2},
        "adaptive_cs": {"method": "adaptive_cs", "cost_interval_labels": 2},
        "oob": {"method": "oob", "ensemble_size": 3},
    },
    {
        "areba": {"method": "areba", "budget": 4},
        "uob": {"method": "uob", "ensemble_size": 3, "theta": 0.5, "scaler": "standard"},
        "oob_single": {"method": "oob_single", "hidden": [3]},
        "relay": {"method": "relay", "replay_per_class": 4},
    },
    {
        "areba": {"method": "areba", "budget": 4},
        "autograd": {"method": "areba", "budget": 4, "network": "tests.simulation.net:Net"},
    },
)
"""Learners by the names of their methods, which the counts of hits use. The last one is slow, and rare."""

JOINS: Sequence[Mapping[str, Any]] = (
    {},
    {"ttl_ms": 40, "max_clock_lead_ms": 10, "closed_ttl_ms": 60, "max_closings_per_record": 2},
    {"max_pending_per_stream": 3, "max_waiting_per_stream": 2, "max_closed_per_stream": 4},
    {
        "ttl_ms": 60,
        "max_clock_lead_ms": 0,
        "max_pending_per_stream": 4,
        "max_waiting_bytes_per_stream": 700,
        "max_table_bytes_per_task": 5_000,
        "max_closings_per_record": 3,
        "max_open_marks_per_stream": 1,
    },
)

BREAKERS: Sequence[Mapping[str, Any]] = (
    {},
    {"in_a_row": 3},
    {"in_a_row": 2, "share": 0.2, "share_after_records": 10},
    {"share": 0.03, "share_after_records": 25},
)

WORKERS: Sequence[Mapping[str, Any]] = (
    {"commit_interval_ms": 10, "max_batch_records": 2},
    {"commit_interval_ms": 100, "max_batch_records": 7},
    {"commit_interval_ms": 0, "max_batch_records": 12},
    {"commit_interval_ms": 500, "max_batch_records": 25, "max_restarts": 2, "snapshot_when_idle_ms": 3_600_000},
    {"commit_interval_ms": 50, "max_batch_records": 9, "max_restarts": 0},
)

ROOMS = (TRANSACTION, TRANSACTION, Room(6, 1 << 20), Room(25, 1 << 20), Room(1_000, 4_000))
"""Limits of one transaction: everything that there is, a few records, or some bytes."""

FADING_FACTORS = ((0.99,), (0.99,), (0.99,), (0.9, 1.0))
"""Windows of metrics: one as by default, or two."""

_COSTS: Mapping[str, Any] = {"costs": {"false_positive": 1, "false_negative": 2.5}}

_DRIFT: Mapping[str, Any] = {"drift": {"reference_examples": 12, "window_examples": 10, "threshold": 0.5}}

DECISIONS: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]] = (
    ({}, {}),
    (_DRIFT, _DRIFT),
    (_DRIFT, {"threshold": {"score": 0.45}, "drift": {"reference_examples": 10, "window_examples": 10}}),
    ({"threshold": {"probability": 0.3}}, {"threshold": "majority"}),
    ({}, {"threshold": {"score": 0.55}}),
    ({"threshold": {"alerts": 0.3}}, {"threshold": {"alerts": 0.3}}),
    ({"threshold": {"alerts": 0.2}}, {"threshold": {"alerts": 0.5}}),
    (_COSTS, {**_COSTS, "threshold": "costs"}),
    ({**_COSTS, "threshold": "costs"}, {"costs": {"false_positive": 0.5, "false_negative": 4}, "threshold": "costs"}),
)
"""Costs, threshold and drift of the first stream, before and after a change of the deployment."""

PASS_HEADERS: Sequence[tuple[Sequence[str], Sequence[str]]] = (
    ([], []),
    (["tenant"], ["tenant"]),
    (["request", "tenant"], ["tenant"]),
    ([], ["tenant", "request"]),
)
"""The headers that examples pass on, before and after a change of the deployment."""

SNAPSHOTS_MS = (0, 1, 2_000)
"""Intervals of snapshots: one is always under way; after any work that took time; only at a clean stop."""

CHANGES: Sequence[Mapping[str, Any]] = (
    {"streams": {LATE_STREAM: {"features": 1}}},
    {"streams": {LATE_STREAM: {"features": 1}}, "learners": {"areba": {"method": "areba", "budget": 8}}},
    {"learners": {"new": {"method": "sliding", "window": 2, "scaler": "standard"}}, "predictions": "all"},
    {"learners": {"areba": {"method": "areba", "hidden": [3]}}, "metrics": {"every_labels": 3}},
    {"join": {"ttl_ms": 30, "max_clock_lead_ms": 500, "closed_ttl_ms": 20, "max_closed_per_stream": 3}},
    {
        "join": {"ttl_ms": 86_400_000, "max_pending_per_stream": 2, "max_waiting_per_stream": 1},
        "corrections": "correct",
    },
)
"""Changes of a deployment. Workers with the old configuration refuse the first two; the others go back and forth."""


@lru_cache(maxsize=4096)
def make_configuration(choice: Choice, late: bool) -> Config:
    """Return the configuration of a choice, before or after its change."""
    streams: dict[str, Any] = {
        name: {"features": features} if features else WITH_COLUMNS for name, features in choice.streams
    }
    for name, _ in choice.streams[:1]:
        streams[name] = {**streams[name], **DECISIONS[choice.decisions][late]}
        if "columns" in streams[name] and "costs" in streams[name]:
            streams[name]["costs"] = {"false_positive": 1, "false_negative": "amount"}
    change = CHANGES[choice.change] if late else {}
    names = {**streams, **change.get("streams", {})}
    data: dict[str, Any] = {
        "application": {"id": "app", "instance": "w"},
        "learners": {**LEARNERS[choice.learners], **change.get("learners", {})},
        "join": {
            **JOINS[choice.join],
            "corrections": change.get("corrections", choice.corrections),
            **change.get("join", {}),
        },
        "breaker": BREAKERS[choice.breaker],
        "worker": {
            "buffer_bytes": 1 << 16,
            "snapshot_after_ms": SNAPSHOTS_MS[choice.snapshots],
            **WORKERS[choice.worker],
        },
        "metrics": {"every_labels": 5, "fading_factors": choice.fading_factors, **change.get("metrics", {})},
        "limits": {"max_record_bytes": 200, "max_features": 4},
        "predictions": change.get("predictions", "all" if len(LEARNERS[choice.learners]) > 1 else "champion"),
        "pass_headers": PASS_HEADERS[choice.headers][late],
        "streams": names,
    }
    if choice.is_confluent:
        data["serialization"] = SECTION
    if choice.room:
        data["unknown_streams"] = "model"
        data["limits"]["max_streams_per_task"] = len(names) + choice.room
    return Config.model_validate(data, context={})


@dataclass(frozen=True, slots=True)
class Shape:
    """Everything that a seed decides before the world starts.

    Attributes:
        seed: The seed.
        partitions: The number of tasks.
        instances: The number of processes at the beginning.
        choice: The configuration.
        records: All inputs.
        before: The number of records that are sent before the first worker starts.
        gap_s: The longest time between two bursts of the other records.
        horizon_s: How long faults continue after the last input.
        session_timeout_s: A member that does not poll for this time is removed from the group.
        pace: The pace of the processes.
        swarm: The faults.
        room: The limits of a transaction.
        dead_letter_bytes: `max.message.bytes` of the topic of dead letters at the beginning.
        oldest_ms: `message.timestamp.before.max.ms` of the inputs.
    """

    seed: int
    partitions: int
    instances: int
    choice: Choice
    records: Sequence[Sent]
    before: int
    gap_s: float
    horizon_s: float
    session_timeout_s: float
    pace: Pace
    swarm: Swarm
    room: Room
    dead_letter_bytes: int
    oldest_ms: int

    @property
    def all_before(self) -> bool:
        """Whether all inputs were there before the first worker."""
        return self.before == len(self.records)


def draw_shape(seed: int) -> Shape:
    """Draw the shape of a seed's world."""
    draw = Random(f"{seed}/shape")
    partitions = draw.choice((1, 1, 2, 3))
    count = draw.choice((partitions, partitions, partitions + 1))
    streams = [StreamOf(f"s{number}", number % partitions, 1 + number % 2) for number in range(count)]
    learners = draw.choice((0, 0, 1, 1, 2, 2, 3, 4, 5)) if draw.random() < 0.97 else len(LEARNERS) - 1
    room = draw.choice((0, 0, 0, 1, 2, 50))
    named = len(streams) - draw.randint(0, len(streams)) if room else len(streams)
    if named and Random(f"{seed}/columns").random() < COLUMNS_SHARE:
        streams[0] = streams[0]._replace(features=0)
    names = [(stream.name, stream.features) for stream in streams[:named]]
    swarm = draw_swarm(draw)
    if Fault.DEPLOY in swarm.rates:
        streams.append(StreamOf(LATE_STREAM, draw.randrange(partitions), 1))
    examples = draw.choice((4, 8, 12, 20)) // len(streams) + 4
    records: Sequence[Sent] = draw_records(draw, streams, examples, tuple(LEARNERS[learners]), draw_trouble(draw))
    own = Random(f"{seed}/promoted thresholds")
    if own.random() < THRESHOLDS_SHARE:
        records = with_thresholds(own, records, streams)
    is_confluent = Random(f"{seed}/format").random() < CONFLUENT_SHARE
    if is_confluent:
        records = [one._replace(value=None if one.value is None else reframed(one.value)) for one in records]
    headers = Random(f"{seed}/headers").randrange(len(PASS_HEADERS))
    if any(PASS_HEADERS[headers]):
        records = with_headers(Random(f"{seed}/tenants"), records)
    return Shape(
        seed=seed,
        partitions=partitions,
        instances=draw.choice((1, 1, 2, 3)),
        choice=Choice(
            learners,
            draw.randrange(len(JOINS)),
            draw.choice((0, 0, 0, 1, 2, 3, 3)),
            draw.randrange(len(WORKERS)),
            draw.choice((0, 0, 1, 2)),
            tuple(names),
            seed % len(CHANGES),
            draw.choice(("first", "correct")),
            room,
            is_confluent,
            Random(f"{seed}/windows").choice(FADING_FACTORS),
            Random(f"{seed}/thresholds").randrange(len(DECISIONS)),
            headers,
        ),
        records=records,
        before=draw.choice((0, len(records) // 2, len(records))),
        gap_s=draw.choice((0.02, 0.2, 1.0)),
        horizon_s=draw.choice((0.5, 3.0, 10.0, 25.0)),
        session_timeout_s=draw.choice((3.0, 6.0, 6.0, 20.0)),
        pace=Pace(draw.choice((0.0001, 0.002, 0.02)), draw.choice((0.0, 0.05, 0.3))),
        swarm=swarm,
        room=Random(f"{seed}/room").choice(ROOMS),
        dead_letter_bytes=draw.choice((1_048_588, 1_048_588, 4_000, SMALLEST_BYTES)),
        oldest_ms=draw.choice((2**62, 30 * DAY_MS)),
    )
