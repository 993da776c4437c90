"""The transactions of a simulated worker: any call may fail, and a commit may come late or its answer may be lost."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

from stream_app.backends.base import TopicPartition
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.errors import FencedError, TransactionAbortedError, UnknownOutcomeError
from stream_app.record_columns import OutputRecords
from tests.simulation.faults import Event, Fault
from tests.simulation.ports import TRANSACTION_TIMEOUT_S, Gate


class SimulatedTransaction:
    """A transactional producer.

    Attributes:
        is_running: Whether work was started whose result was not asked for yet.
        is_ahead: Whether the worker has computed a batch since then.

    Args:
        gate: The gate of its process.
        make: Creates a client, which does the work; a client that failed is replaced.
        later: Makes the broker act after this number of seconds.
        leave_group: Removes its process from the group.
        is_forgotten: Says whether the broker has forgotten the transactional id.
    """

    def __init__(
        self,
        gate: Gate,
        make: Callable[[], EmbeddedTransaction],
        later: Callable[[float, Callable[[], None]], None],
        leave_group: Callable[[], None],
        is_forgotten: Callable[[], bool] = lambda: False,
    ) -> None:
        self._gate = gate
        self._make = make
        self._inner = make()
        self._later = later
        self._leave_group = leave_group
        self._is_forgotten = is_forgotten
        self.is_running = False
        self.is_ahead = False
        self._is_in_work = False
        self._do_work: Callable[[], None] = lambda: None
        self._is_left = False  # the broker decides the outcome of the open transaction

    def initialise(self) -> None:
        """Fence older producers of this id."""
        self._gate.ask("initialise", self._inner.initialise)

    def begin(self) -> None:
        """Open a transaction."""
        self.initialise()
        self._refused("begin", self._inner.begin)
        self._become_zombie("begin")
        self._gate.begun_s = self._gate.scheduler.now_s

    def produce(self, partition: TopicPartition, records: OutputRecords, offsets: list[int] | None = None) -> None:
        """Write the records."""
        self._become_zombie("produce")
        self._abort_by_chance("produce")
        self._refused("produce", lambda: self._inner.produce(partition, records, offsets))

    def serve(self) -> None:
        """Do nothing: no call to a broker."""

    def flush(self) -> None:
        """Wait until everything is written."""
        self._become_zombie("flush")
        self._refused("flush", self._inner.flush)

    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: object) -> None:
        """Make offsets part of the transaction."""
        self._become_zombie("send_offsets")
        self._abort_by_chance("send_offsets")
        self._refused("send_offsets", lambda: self._inner.send_offsets(offsets, group))

    def commit(self) -> None:
        """Commit; the worker may get no answer, or a late one."""
        gate, faults = self._gate, self._gate.faults
        self._become_zombie("commit")
        self._abort_by_chance("commit", Fault.ABORT_AHEAD if self._is_in_work else Fault.ABORT)
        if faults.hit(Fault.COMMIT_LOST):
            self._is_left = faults.draw.random() < 0.5
            self._unheard("commit: lost on the way to the broker")
        if faults.hit(Fault.COMMIT_LATE):
            self._is_left = True
            self._later(12.0 * faults.draw.random() ** 2, partial(self._commit_late, self._inner))
            self._unheard("commit: late on the way to the broker")
        self._refused("commit", self._inner.commit)
        if faults.hit(Fault.COMMITTED_UNHEARD):
            self._unheard("commit: done, but the answer was lost")
        gate.begun_s = None

    def _unheard(self, what: str) -> None:
        """Give the client up: replace it, or restart the process."""
        self._gate.say(what)
        self._gate.enter("commit")
        if self._gate.faults.draw.random() < 0.5:
            raise UnknownOutcomeError(what)
        self._replace()
        raise TransactionAbortedError(f"{what}; a new client settles it")

    def _replace(self) -> None:
        """Replace the client; what the old client has sent may still arrive."""
        self._inner = self._make()
        self._is_left = False
        self._gate.begun_s = None
        self._gate.faults.events[Event.CLIENT_REPLACED] += 1

    def _commit_late(self, inner: EmbeddedTransaction) -> None:
        with suppress(FencedError):
            inner.commit()
            self._gate.say("commit: came through late")
            self._gate.faults.events[Event.COMMITTED_LATE] += 1

    def _become_zombie(self, call: str) -> None:
        """Lose the tasks while frozen with an open transaction, often too briefly for it to time out."""
        if self._gate.faults.hit(Fault.EVICT):
            seconds = 1.2 * TRANSACTION_TIMEOUT_S * self._gate.faults.draw.random()
            self._gate.say(f"{call}: thrown out of the group, stands still for {seconds:.2f} s")
            self._leave_group()
            self._gate.faults.events[Event.STALL_IN_TRANSACTION] += 1
            self._gate.is_busy = True
            self._gate.rest(seconds)
            self._gate.is_busy = False

    def _abort_by_chance(self, call: str, fault: Fault = Fault.ABORT) -> None:
        if self._gate.faults.hit(fault):
            self._gate.say(f"{call}: aborted")
            self._refused("abort", self._inner.abort)
            self._gate.begun_s = None
            raise TransactionAbortedError(f"{call}: aborted by chance")

    def _refused(self, name: str, inner: Callable[[], None]) -> None:
        """Make a call that the broker may refuse, and count why."""
        gate = self._gate
        try:
            gate.call(name, inner)
        except FencedError:
            begun_s = gate.begun_s
            timed_out = begun_s is not None and gate.scheduler.now_s - begun_s > TRANSACTION_TIMEOUT_S
            gate.faults.events[Event.TIMED_OUT if timed_out else Event.FENCED] += 1
            gate.begun_s = None
            if self._is_forgotten():
                gate.faults.events[Event.ID_EXPIRED] += 1
                self._replace()
                raise TransactionAbortedError(f"{name}: the broker has forgotten the id") from None
            if timed_out:
                self._replace()
                raise TransactionAbortedError(f"{name}: it took too long") from None
            raise
        except TransactionAbortedError:
            gate.faults.events[Event.ZOMBIE_REFUSED] += 1
            gate.begun_s = None
            raise

    def start(self, work: Callable[[], bool]) -> Callable[[], bool]:
        """Do the work now, or when its result is asked for: in a thread, it may end at any time in between."""
        done: Future[bool] = Future()
        self._do_work = partial(self._work, work, done)
        self.is_ahead = False
        self.is_running = True
        if self._gate.faults.draw.random() < 0.5:
            self._do_work()

        def result() -> bool:
            self._do_work()
            self.is_running = False
            is_aborted = isinstance(done.exception(), TransactionAbortedError)
            self._gate.faults.events[Event.AHEAD_DISCARDED] += self.is_ahead and is_aborted
            return done.result()

        return result

    def _work(self, work: Callable[[], bool], done: "Future[bool]") -> None:
        """Do the work, unless it is done."""
        if done.done():
            return
        self._is_in_work = True
        try:
            done.set_result(work())
        except Exception as problem:  # noqa: BLE001  (raised where the worker asks for the result)
            done.set_exception(problem)
        finally:
            self._is_in_work = False

    def abort(self) -> None:
        """Abort."""
        self._refused("abort", self._inner.abort)
        self._gate.begun_s = None

    def close(self) -> None:
        """Release the client."""
        self._gate.enter("close")
        if self.is_running:
            self._do_work()
        if not self._is_left:
            self._inner.close()
