"""The streams of the demo, the configuration of its application, and the plan of their replay."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from stream_app.config import Config, load
from stream_app.producers.label_delay import parse_label_delay
from stream_app.producers.plan import Plan, StreamPlan
from stream_app.producers.sources import parse_source
from stream_app.producers.target_options import BOOTSTRAP_VARIABLES

CONFIGURATION_FILE = "demo.yaml"

SPAN_MS = 4 * 3_600_000
"""Event time of every stream: its last event happens now, its first four hours ago."""


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """One stream of the demo.

    Attributes:
        source: Source as `areba-replay` takes it, with `{length}` for the number of examples.
        length: Number of examples.
        short_length: Number of examples in the short demo.
        delay: Delay of its labels, as `areba-replay` takes it.
        unlabelled_share: Share of the examples whose labels are never sent.
        settings: The stream's section of the configuration.
        note: A remark for the figure.
    """

    source: str
    length: int
    short_length: int
    delay: str
    unlabelled_share: float
    settings: Mapping[str, Any]
    note: str

    @property
    def name(self) -> str:
        """Name of the stream."""
        return self.source.partition(":")[0]


STREAMS = (
    StreamSpec(
        "fraud:limit={length}", 40_000, 4_000, "lognormal:4m,0.7", 0.01, {"features": 30, "learning_rate": 0.0001}, ""
    ),
    StreamSpec(
        "forest:limit={length}", 20_000, 2_000, "uniform:1m-6m", 0.02, {"features": 54, "learning_rate": 0.01}, ""
    ),
    StreamSpec(
        "mnist:limit={length}",
        6_060,
        400,
        "exponential:2m",
        0.02,
        {
            "features": 784,
            "learning_rate": 0.001,
            "hidden": [512, 512],
            "l2": 0.01,
            "learners": {"relay": {"hidden": [8]}},  # as in the study: RELAY has the same network on each stream
        },
        "7 against 2",
    ),
    StreamSpec(
        "sine:imbalance=1,drift=posterior,length={length},seed=1",
        20_000,
        2_000,
        "fixed:100ev",
        0.02,
        {"features": 2, "learning_rate": 0.01},
        "",
    ),
    StreamSpec(
        "circle:imbalance=1,drift=likelihood,length={length},seed=2",
        20_000,
        2_000,
        "fixed:1m",
        0.02,
        {"features": 2, "learning_rate": 0.01},
        "",
    ),
    StreamSpec(
        "sea:imbalance=10,drift=prior,length={length},seed=3",
        20_000,
        2_000,
        "positive=uniform:10s-1m,negative=exponential:3m",
        0.02,
        {"features": 2, "learning_rate": 0.01},
        "",
    ),
)

LEARNERS: Mapping[str, Mapping[str, Any]] = {
    "areba": {"method": "areba", "budget": 20},
    "baseline": {"method": "baseline"},
    "relay": {"method": "relay"},
}
"""The champion, plain training, and the challenger."""

RATE, SHORT_RATE = 2_500.0, 1_500.0
"""Examples per second of all streams together: slow enough to watch, fast enough to end within three minutes."""


def configuration(folder: Path, bootstrap_servers: str | None) -> Config:
    """Write the configuration of this run to a file and load it.

    All names in it are new, so that a second run does not meet topics or groups of the first.
    """
    name = f"demo-{folder.name}"
    data: dict[str, Any] = {
        "application": {"id": name},
        "kafka": {
            "topic_prefix": f"{name}-",
            # how long the tasks of a killed worker wait for another worker: the least that brokers allow by default
            "consumer": {"session.timeout.ms": 6_000},
        },
        "worker": {"commit_interval_ms": 50},
        "metrics": {"every_labels": 50},
        "predictions": "all",
        "learners": {name: dict(settings) for name, settings in LEARNERS.items()},
        "streams": {spec.name: dict(spec.settings) for spec in STREAMS},
    }
    if bootstrap_servers:
        data["kafka"]["bootstrap_servers"] = bootstrap_servers
    path = folder / CONFIGURATION_FILE
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return load(path, environment())


def environment() -> dict[str, str]:
    """Return our environment without brokers: the chosen ones are in the configuration."""
    return {name: value for name, value in os.environ.items() if name not in BOOTSTRAP_VARIABLES}


def replay_plan(config: Config, *, short: bool) -> Plan:
    """Return the plan of the replay: all streams, each spread over the same span of event time."""
    streams = []
    for spec in STREAMS:
        length = spec.short_length if short else spec.length
        source = parse_source(spec.source.format(length=length))
        streams.append(
            StreamPlan(
                stream=source.stream,
                data=source.data,
                delay=parse_label_delay(spec.delay),
                unlabelled_share=spec.unlabelled_share,
                interval_ms=SPAN_MS // len(source.data),
            )
        )
    rate = SHORT_RATE if short else RATE
    examples, labels = config.topics.inputs
    return Plan(tuple(streams), seed=1, examples_topic=examples, labels_topic=labels, rate=rate)
