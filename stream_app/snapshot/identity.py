"""What must stay the same while an application exists: the rules of its results, its number of tasks, its inputs.

Every commit record stores all three. Workers and tools compare them with what they find.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from stream_app.progress_records import Commit

RULES = 1
"""Version of the rules that decide results; increased whenever a change of areba changes a result.

A commit is re-processed only under the rules that it was processed under, since other rules would give other outputs
than those that were published. A task can change to new rules right after a snapshot, where nothing is re-processed.
"""


class Identity(NamedTuple):
    """What identifies the topics of an application, now or when a commit record was written.

    Attributes:
        partitions: Number of tasks, which is the number of partitions that are used of every topic; 0: not known.
        topic_ids: Ids of the examples topic and the labels topic (KIP-516), in Kafka's text form; empty: not known.
        output_ids: Ids of the output topics, by their names without prefix; those that are not known are absent.
    """

    partitions: int = 0
    topic_ids: tuple[str, str] = ("", "")
    output_ids: Mapping[str, str] = MappingProxyType({})


UNKNOWN = Identity()
"""The identity of topics that nobody has looked at yet."""


def output_id(commit: Commit, topic: str) -> str:
    """Return the id of an output topic to which a commit wrote, by the topic's name without prefix; empty: unknown."""
    found: str = getattr(commit, f"{topic.replace('-', '_')}_topic_id")
    return found


def other_rules(rules: int, sequence: int, engine: str) -> str | None:
    """Return why this version cannot re-process a commit, and which version can; None if this version can.

    Args:
        rules: The rules that the commit was processed under.
        sequence: Sequence of the commit.
        engine: The version of areba that wrote the newest configuration or snapshot before it.
    """
    if rules == RULES:
        return None
    return (
        f"sequence {sequence} was processed under rules {rules} by areba {engine}, and comes after the newest "
        f"snapshot; this version has rules {RULES}, which give other outputs. Stop all workers, run areba {engine} "
        "until this task is live there, and end it with SIGTERM: it then takes a snapshot, from which this version "
        "continues"
    )


def created_again(topics: tuple[str, str], recorded: tuple[str, str], found: tuple[str, str]) -> str | None:
    """Return which input topic was deleted and created again under the same name; None if neither was.

    Args:
        topics: Names of the examples topic and the labels topic.
        recorded: Their ids when the application last committed; an empty id is not compared.
        found: Their ids now.
    """
    for name, before, now in zip(topics, recorded, found, strict=True):
        if before and now and before != now:
            return (
                f"{name} was deleted and created again: its topic id is {now}, but {before} was recorded. The offsets "
                "and models of this application belong to the deleted topic. Another application.id, with another "
                "kafka.output_prefix, reads the new topic from its first record; `areba state import` gives it the "
                "models"
            )
    return None
