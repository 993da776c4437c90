"""Measure a running program from outside: records in its output topics, its CPU time, and the broker's."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ops.keeper import KeptProcess

POLL_S = 0.02
LIMIT_S = 300.0
MARKERS = 10
"""More than the records that a program's topics get before its first output: markers of transactions at its start."""

NO_LEADER_CODES = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
CLOCK_HZ = os.sysconf("SC_CLK_TCK")


class Sample(NamedTuple):
    """The state at one time: seconds, records in the output topics, CPU seconds of the program and of the broker."""

    at_s: float
    records: int
    program_s: float
    broker_s: float


@dataclass(frozen=True, slots=True)
class Part:
    """Figures of one half of a run.

    Attributes:
        pairs_per_s: Examples with their labels in a second.
        program_us: CPU microseconds of the program for each of them.
        broker_us: CPU microseconds of the broker for each of them.
    """

    pairs_per_s: float
    program_us: float
    broker_us: float


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process since its start, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_HZ


class Meter:
    """Samples until the output topics have all records.

    Args:
        servers: The broker.
        broker: The id of the broker's process.
        outputs: Topics of one partition.
    """

    def __init__(self, servers: str, broker: int, outputs: Sequence[str]) -> None:
        self._broker = broker
        self._partitions = [TopicPartition(topic, 0) for topic in outputs]
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": "peers-meter"})

    def samples(self, process: KeptProcess, records: int) -> list[Sample]:
        """Return the samples of a process from its first outputs until the topics have this many records.

        Raises:
            ChildProcessError: The process ended.
            TimeoutError: The topics did not get these records in time.
        """
        found: list[Sample] = []
        end_s = time.monotonic() + LIMIT_S
        while True:
            now_s, high = time.monotonic(), self._records()
            if high > MARKERS and (not found or high != found[-1].records):
                found.append(Sample(now_s, high, cpu_s(process.pid), cpu_s(self._broker)))
            if high >= records:
                return found
            if process.poll() is not None:
                raise ChildProcessError(f"the process ended with status {process.returncode}")
            if now_s > end_s:
                raise TimeoutError(f"{high} of {records} records after {LIMIT_S:g} s")
            time.sleep(POLL_S)

    def _records(self) -> int:
        """Return the ends of the topics: their records, and some markers; 0 while a new topic has no leader yet."""
        try:
            return sum(self._consumer.get_watermark_offsets(place, timeout=10.0)[1] for place in self._partitions)
        except KafkaException as problem:
            if problem.args[0].code() not in NO_LEADER_CODES:
                raise
            return 0

    def close(self) -> None:
        """Release the consumer."""
        self._consumer.close()


def halves(samples: Sequence[Sample], outputs: int) -> tuple[Part, Part]:
    """Return the figures of the first and the second half of the records after the first sample.

    Args:
        samples: The samples of one run.
        outputs: Records that the program writes for each example with its label.
    """
    columns = np.array(samples, np.float64).T
    first, last = columns[1, 0], columns[1, -1]
    bounds = np.array([first, (first + last) / 2, last])
    at_s, program_s, broker_s = (np.diff(np.interp(bounds, columns[1], column)) for column in columns[[0, 2, 3]])
    done = (last - first) / 2 / outputs
    first_half, second_half = (
        Part(done / at_s[half], program_s[half] / done * 1e6, broker_s[half] / done * 1e6) for half in (0, 1)
    )
    return first_half, second_half
