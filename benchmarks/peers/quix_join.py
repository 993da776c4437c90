"""Quix Streams' interval join of two topics by key, exactly once. It runs in an environment of its own.

Arguments: the brokers, both input topics, the output topic, a folder for state.
"""

import sys
from datetime import timedelta

from quixstreams import Application  # type: ignore[import-not-found]  # `programs.py` installs it elsewhere

OUTPUT = bytes(75)
HOUR = timedelta(hours=1)


def main(servers: str, examples: str, labels: str, output: str, folder: str) -> None:
    """Join until the process is ended."""
    application = Application(
        broker_address=servers,
        consumer_group=output,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=0.1,
        state_dir=folder,
        auto_create_topics=True,
    )
    inputs = [
        application.dataframe(application.topic(name, key_deserializer="bytes", value_deserializer="bytes")).apply(
            lambda value: value.decode("latin-1")  # state is stored as JSON, which has no bytes
        )
        for name in (examples, labels)
    ]
    joined = inputs[0].join_interval(
        inputs[1], on_merge=lambda _example, _label: OUTPUT, grace_ms=HOUR, backward_ms=HOUR, forward_ms=HOUR
    )
    joined.to_topic(application.topic(output, key_serializer="bytes", value_serializer="bytes"))
    application.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
