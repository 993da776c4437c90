"""A quiet week on a broker that forgets in seconds what brokers forget in days: nothing may be lost.

    python -m tests.chaos.week --day 60        # ten minutes

Each day, some examples and their labels come, then nothing for the rest of the day, which is longer than every timeout
of the broker but that of the group's offsets. On some days the worker is killed, early or late. Inputs are kept for two
days. In the holiday nobody runs until the group's offsets have expired, too.
"""

import argparse
import contextlib
import logging
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported, but not marked so
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from stream_app.backends.base import TopicPartition
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.records import Outcome, Prediction
from stream_app.serialization import codec
from tests.support.kafka.application import App, Section
from tests.support.kafka.hasty_broker import FORGETS_S, OFFSETS_S, HastyKafka, hasty_kafka
from tests.support.kafka.processes import WorkerProcess, areba, workers
from tests.support.kafka.records import example, label
from tests.support.kafka.waiting import DEADLINE_S, wait_until

LOGGER = logging.getLogger("week")

DAYS = 7
"""A week, before the holiday."""

KEPT_DAYS = 2
"""The inputs are kept for so many days."""

EXAMPLES = 40
"""Examples of a day: a millisecond of processing."""


class Week:
    """One application, and the days that it lives through.

    Args:
        kafka: The broker.
        folder: For files and logs.
        day_s: Seconds of a day.
        days: Days before the holiday.
        seed: Decides when the worker is killed.
    """

    def __init__(self, kafka: HastyKafka, folder: Path, day_s: float, days: int, seed: int) -> None:
        sections: dict[str, Section] = {
            "streams": {"pumps": {"features": 2}},
            "join": {"ttl_ms": 1_000, "max_clock_lead_ms": 1_000},
            "worker": {"snapshot_when_idle_ms": 1_000},
            "kafka": {"bootstrap_servers": kafka.servers, "all": kafka.client},
        }
        self.app = App(kafka.open_servers, "week-", folder, sections)
        self.sent = 0
        self._kafka = kafka
        self._day_s = day_s
        self._days = days
        self._draw = random.Random(seed)
        self._checkpoint = folder / "verify.checkpoint"

    def run(self) -> None:
        """Live through the week, and check that nothing was lost.

        Raises:
            AssertionError: Something was.
        """
        self.app.create_topics()
        self._keep_for(KEPT_DAYS * self._day_s)
        with workers(self.app, "one") as (worker,):
            worker.start()
            for day in range(self._days):
                self._live(worker, day)
            assert worker.stop() == 0
            time.sleep(max(OFFSETS_S, KEPT_DAYS * self._day_s) + 5.0)  # the holiday
            assert self._committed() == 0, "the group's offsets have expired"
            worker.start()
            self._live(worker, self._days)
            self._check_sent()
            self._check_met(worker)
            inspected = areba(self._file, "inspect")
            assert inspected.returncode == 0, inspected.stdout
            assert worker.stop() == 0

    @property
    def _file(self) -> Path:
        return self.app.file("tool")

    def _keep_for(self, seconds: float) -> None:
        """Let the broker delete inputs after this time."""
        admin = AdminClient({"bootstrap.servers": self._kafka.open_servers})
        entries = [
            ConfigEntry(name, str(int(1000 * seconds)), incremental_operation=AlterConfigOpType.SET)
            for name in ("retention.ms", "message.timestamp.before.max.ms")
        ]
        names = self.app.input_topics
        changes = [ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries) for name in names]
        for future in admin.incremental_alter_configs(changes).values():
            future.result(DEADLINE_S)

    def _live(self, worker: WorkerProcess, day: int) -> None:
        """Live through a day: records come, and are processed; a kill, and a pause."""
        end_s = time.monotonic() + self._day_s
        self._send()
        wait_until(lambda: self._committed() == self.sent, f"the records of day {day}", DEADLINE_S)
        fate = self._draw.choice(("nothing", "killed early", "killed late"))
        if fate == "killed early":
            self._kill(worker)
        verified = areba(self._file, "verify", "--checkpoint", str(self._checkpoint))
        assert verified.returncode == 0, f"day {day}: {verified.stdout}{verified.stderr}"
        time.sleep(max(0.0, end_s - time.monotonic()))
        if fate == "killed late":
            self._kill(worker)

    def _kill(self, worker: WorkerProcess) -> None:
        """Kill the worker, and start it again."""
        worker.kill()
        worker.start()
        worker.wait_for(" restored task=0")

    def _send(self) -> None:
        now_ms = int(time.time() * 1000)
        with contextlib.closing(KafkaSender(self._kafka.open_servers)) as sender:
            for number in range(self.sent, self.sent + EXAMPLES):
                self.app.send_by(sender, [example("pumps", str(number), [number % 7, number % 3], now_ms)])
                self.app.send_by(sender, [label("pumps", str(number), int(number % 7 == 6), now_ms)])
            sender.flush(DEADLINE_S)
        self.sent += EXAMPLES

    def _committed(self) -> int:
        """Return up to where both inputs are processed."""
        places = [TopicPartition(name, 0) for name in self.app.input_topics]
        found = self.app.cluster.committed(self.app.config.group_id, places)
        return min(offset or 0 for offset in found.values())

    def _check_sent(self) -> None:
        """Check that each example was predicted once, and that each label was learned once."""
        wanted = Counter(map(str, range(self.sent)))
        outputs = self.app.outputs(0)
        records = [codec.decode_one(read.value or b"") for name in outputs for read in outputs[name]]
        predicted = Counter(one.id for one in records if isinstance(one, Prediction))
        joined = Counter(one.id for one in records if isinstance(one, Outcome))
        assert predicted == wanted
        assert joined == wanted

    def _check_met(self, worker: WorkerProcess) -> None:
        """Check that the week had what it is about; no pause may have replaced a process."""
        log = worker.log_file.read_text()
        counts = {event: log.count(f" {event}") for event in ("started", "snapshot-complete", "aborted", "restored")}
        LOGGER.info("%s", counts)
        assert "restarting" not in log
        assert "INVALID_PRODUCER_ID_MAPPING" in log, "the broker forgot the transactional id"
        for name in self.app.input_topics:
            assert self.app.cluster.watermarks(TopicPartition(name, 0)).low > EXAMPLES, "retention deleted inputs"


def main() -> None:
    """Run the week."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--day", type=float, default=60.0, help=f"seconds of a day; more than {2 * FORGETS_S:g}")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    with tempfile.TemporaryDirectory() as folder, hasty_kafka() as kafka:
        Week(kafka, Path(folder), options.day, DAYS, options.seed).run()
    LOGGER.info("nothing was lost in %d days and a holiday", DAYS)


if __name__ == "__main__":
    main()
