"""The commits of an application, read from its progress topic while its workers run."""

import contextlib
from collections.abc import Mapping
from typing import Self

from stream_app.backends.base import TopicPartition
from stream_app.progress_records import Act, Commit
from stream_app.serialization import codec
from tests.support.kafka.application import App
from tests.support.kafka.topics import reading
from tests.support.kafka.waiting import DEADLINE_S, wait_until


class Progress:
    """The commits and the committed offsets of an application."""

    def __init__(self, app: App) -> None:
        self._stack = contextlib.ExitStack()
        cluster, topic = app.cluster, app.config.topics.progress
        self._readers = {
            number: self._stack.enter_context(reading(cluster, TopicPartition(topic, number)))
            for number in range(app.partitions)
        }
        self.records: dict[int, list[Commit | Act]] = {number: [] for number in self._readers}
        self.offsets: dict[int, tuple[int, int]] = dict.fromkeys(self._readers, (0, 0))
        self.commits = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def poll(self) -> int:
        """Read new records; return the number of commits so far."""
        for number, reader in self._readers.items():
            fetched = reader.poll(10_000, 0.0)
            for value in fetched.records.values if fetched else ():
                record = codec.decode_one(value or b"")
                assert isinstance(record, Commit | Act)
                self.records[number].append(record)
                if isinstance(record, Commit):
                    self.commits += 1
                    self.offsets[number] = (record.examples_end, record.labels_end)
        return self.commits

    def wait_for_more(self, commits: int, deadline_s: float = DEADLINE_S) -> None:
        """Wait until this many more commits have been made."""
        wanted = self.poll() + commits
        wait_until(lambda: self.poll() >= wanted, f"{commits} more commits ({self.offsets})", deadline_s)

    def wait_for_ends(self, ends: Mapping[int, tuple[int, int]], deadline_s: float = DEADLINE_S) -> None:
        """Wait until all records before these offsets are committed; a commit also covers the markers after them."""

        def reached() -> bool:
            self.poll()
            return all(
                done >= end
                for number, wanted in ends.items()
                for done, end in zip(self.offsets[number], wanted, strict=True)
            )

        try:
            wait_until(reached, "", deadline_s)
        except AssertionError:
            raise AssertionError(f"committed {self.offsets} of {ends} within {deadline_s:g} s") from None
