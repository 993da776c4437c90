"""What must not change under an application: which rules decide its results, how many tasks it has, what it reads.

Every commit record says all of it, and each worker and tool compares it with what it finds.
"""

from typing import NamedTuple

RULES = 2
"""Number of the rules that decide results, which rises with every change of a result.

    1    areba 0.x
    2    areba 1.0

Commits are re-processed under the rules that they were processed under, or not at all: other rules give other outputs
than those that are published. New rules begin with the next commit after a snapshot, where nothing is re-processed.
"""


class Identity(NamedTuple):
    """What the broker says of an application now, or a commit record said of it then.

    Attributes:
        partitions: Number of tasks: of partitions of every topic that are read and written; 0: not known.
        topic_ids: Ids of the examples and of the labels topic (KIP-516), in Kafka's text form; empty: not known.
    """

    partitions: int = 0
    topic_ids: tuple[str, str] = ("", "")


UNKNOWN = Identity()
"""Of formats that did not have it."""


def other_rules(rules: int, sequence: int, engine: str) -> str | None:
    """Say why a commit cannot be re-processed here, and which version does it; None: it can.

    Args:
        rules: Those that it was processed under.
        sequence: Its number.
        engine: The version of areba that wrote the newest configuration or snapshot before it.
    """
    if rules == RULES:
        return None
    return (
        f"sequence {sequence} was processed under rules {rules} by areba {engine}, lies after the newest snapshot, and "
        f"this version has rules {RULES}, which give other outputs. Stop all workers, run areba {engine} until this "
        "task is live there, and end it with SIGTERM: it then takes a snapshot, and this version continues from there"
    )


def created_again(topics: tuple[str, str], recorded: tuple[str, str], found: tuple[str, str]) -> str | None:
    """Say which input is another topic than the application read, though it has its name; None: both are the same.

    Args:
        topics: Names of the examples and of the labels topic.
        recorded: Their ids when the application last committed; an empty id is not compared.
        found: Their ids now.
    """
    for name, before, now in zip(topics, recorded, found, strict=True):
        if before and now and before != now:
            return (
                f"{name} was deleted and created again: its topic id is {now}, and {before} was recorded. The offsets "
                "and models of this application are those of the deleted topic. Another application.id, with another "
                "kafka.output_prefix, reads the new topic from its first record; `areba state import` gives it the "
                "models"
            )
    return None
