"""The limits of a task's next batch and of a round, which follow the cost of the batches before."""

_STEP_TARGET_S = 0.2
"""Computing time of one batch, which bounds latency and the time between polls: a costly network gets small batches."""

ROUND_S = 2.0
"""Computing time after which a round takes no further task: the batches of 64 costly tasks would take 13 s."""

_FIRST_BATCH_RECORDS = 500
"""First batch of a task whose cost is unknown: 0.7 s of the largest network in use, 2 ms of a small one."""


class BatchLimits:
    """The limit of each task's next batch, in records.

    Where a batch is cut changes no result, so the wall clock may decide.

    Args:
        max_records: No batch takes more records than this.
    """

    def __init__(self, max_records: int) -> None:
        self._max_records = max_records
        self._limits: dict[int, int] = {}
        self._computed_s = 0.0  # by the batches of this round

    def begin_round(self) -> None:
        """Note that the next batch is the first of a round."""
        self._computed_s = 0.0

    @property
    def is_round_over(self) -> bool:
        """Whether the batches of this round took so long that the other tasks are left to the next round."""
        return self._computed_s > ROUND_S

    def limit(self, number: int) -> int:
        """Return the most records that the next batch of this task may take."""
        return self._limits.get(number, min(_FIRST_BATCH_RECORDS, self._max_records))

    def learn(self, number: int, records: int, seconds: float) -> None:
        """Adapt the limit of a task to a batch of this many records that took this long."""
        self._computed_s += seconds
        limit = self.limit(number)
        if seconds > _STEP_TARGET_S:
            limit = max(1, int(records * _STEP_TARGET_S / seconds))
        elif records == limit and seconds < _STEP_TARGET_S / 2:
            limit = min(2 * limit, self._max_records)
        self._limits[number] = limit
