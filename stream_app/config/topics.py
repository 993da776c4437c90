"""The names of an application's topics: a prefix and a usual name, or a name of their own."""

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple, TypeAlias

from pydantic import StringConstraints

TopicPrefix: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{0,100}$")]

FullTopicName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]

TopicRole: TypeAlias = Literal[
    "examples", "labels", "predictions", "outcomes", "metrics", "dead_letters", "changelog", "progress"
]
"""A topic of an application: a field of `Topics`."""


class Topics(NamedTuple):
    """The full names of an application's topics."""

    examples: str
    labels: str
    predictions: str
    outcomes: str
    metrics: str
    dead_letters: str
    changelog: str
    progress: str

    @property
    def inputs(self) -> tuple[str, str]:
        """The topics of examples and labels, by `Side`."""
        return self.examples, self.labels


def usual_topics(input_prefix: str, output_prefix: str, own_prefix: str) -> Topics:
    """Return the usual names; `own_prefix` is that of the topics that only the application itself reads."""
    return Topics(
        examples=f"{input_prefix}examples",
        labels=f"{input_prefix}labels",
        predictions=f"{output_prefix}predictions",
        outcomes=f"{output_prefix}outcomes",
        metrics=f"{output_prefix}metrics",
        dead_letters=f"{output_prefix}dead-letters",
        changelog=f"{own_prefix}changelog",
        progress=f"{own_prefix}progress",
    )


def same_names(topics: Topics) -> Iterator[tuple[str, str]]:
    """Yield each topic that has the name of another topic, and what is wrong."""
    first: dict[str, str] = {}
    for topic, name in topics._asdict().items():
        if name in first:
            yield topic, f"{name} is also the topic of the {first[name].replace('_', ' ')}"
        first.setdefault(name, topic)
