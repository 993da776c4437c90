"""Ways to break the code that the simulation must find: a proof that it can fail.

Each is a change of some lines of one function, made while seeds run and undone behind them. A mutant whose lines are
no longer in the function is an error: it would prove nothing.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from stream_app import changelog, embedded, hanging, restore, worker


class Mutant(NamedTuple):
    """One way to break the code.

    Attributes:
        what: What is wrong with it.
        owner: Class of the function.
        function: Its name.
        lines: What stands there; the second line and those behind it without the first one's indentation.
        instead: What stands there in the mutant.
    """

    what: str
    owner: type
    function: str
    lines: str
    instead: str


MUTANTS: Mapping[str, Mutant] = {
    "offsets-unsent": Mutant(
        "a transaction carries outputs and progress, but no offsets",
        worker.Worker,
        "_commit",
        "transaction.send_offsets(offsets, self._group)",
        "pass",
    ),
    "offsets-behind": Mutant(
        "the offset of the last record is committed, not the one behind it",
        restore.OwnedTask,
        "step",
        "int(examples.offsets[-1]) + 1 if rows[0]",
        "int(examples.offsets[-1]) if rows[0] > 1",
    ),
    "progress-apart": Mutant(
        "progress is written in a transaction of its own, before that of the outputs",
        worker.Worker,
        "_commit",
        "transaction.send_offsets(offsets, self._group)",
        "transaction.commit(); transaction.begin(); transaction.send_offsets(offsets, self._group)",
    ),
    "unknown-is-committed": Mutant(
        "an unknown outcome is taken for a commit",
        worker.Worker,
        "round",
        "except TransactionAbortedError as error:",
        "except UnknownOutcomeError:\n    pass\nexcept TransactionAbortedError as error:",
    ),
    "abort-is-committed": Mutant(
        "an aborted transaction is taken for a commit",
        worker.Worker,
        "round",
        "self._start_over([part.task for part in parts], error)\nreturn",
        "self._observer.aborted(str(error))",
    ),
    "state-kept": Mutant(
        "after an abort the state is kept, although it has learned the batch",
        worker.Worker,
        "_start_over",
        "for task in tasks:",
        "for task in ():",
    ),
    "revoked-kept": Mutant(
        "a revoked task goes on",
        worker.Worker,
        "_on_revoke",
        "self._drop(number)",
        "pass",
    ),
    "unfenced-start": Mutant(
        "a process joins the group without fencing the one before it of its name",
        embedded.EmbeddedTransaction,
        "initialise",
        "self._epoch = self._broker.initialise(self._id)",
        "self._epoch = max(0, self._broker._epochs.get(self._id, 0)); self._broker._epochs[self._id] = self._epoch",
    ),
    "epoch-unchecked": Mutant(
        "whoever is fenced still writes: the broker's epochs are not looked at",
        embedded.EmbeddedBroker,
        "check_epoch",
        "if current != epoch:",
        "if False:",
    ),
    "zombies-unchecked": Mutant(
        "offsets of a zombie are taken: neither member nor generation is looked at",
        embedded.EmbeddedBroker,
        "add_offsets",
        "if metadata.member not in group.members:",
        "metadata = metadata._replace(generation=group.generation)\nif False:",
    ),
    "unstable-offsets": Mutant(
        "committed offsets are read without waiting for transactions that hold them",
        embedded.EmbeddedBroker,
        "committed",
        "while self._held(group_id, partitions):",
        "while False:",
    ),
    "aborted-read": Mutant(
        "inputs of aborted transactions are read",
        embedded.EmbeddedSource,
        "_fetch",
        "records, following, at_end = self._broker.read(partition, self._next[partition], left)",
        "following = min(self._next[partition] + left, self._broker._log(partition).stable()); "
        "entries = [e for e in self._broker._log(partition).entries"
        " if self._next[partition] <= e.offset < following and not e.marker]; "
        "records, at_end = _columns(entries), following == self._broker._log(partition).stable()",
    ),
    "replay-skips": Mutant(
        "re-processing takes the last label of a range in the next one, and digests are not compared",
        restore.OwnedTask,
        "_replay_commit",
        "take(rows[1]))\n"
        "digest = chain_digest(self._point.digest, ranges, outputs)\n"
        "self._writer.worked(self._clock.monotonic_s() - start_s)\n"
        "if digest != commit.digest:",
        "take(rows[1] - (rows[1] > 2)))\ndigest = commit.digest\nif False:",
    ),
    "replay-further": Mutant(
        "re-processing takes all that was fetched, not the recorded range",
        restore.OwnedTask,
        "_rows_of_range",
        "return self.waiting[side].rows_below(end)",
        "return self.waiting[side].rows_below(end) and len(self.waiting[side])",
    ),
    "configuration-skipped": Mutant(
        "re-processing passes over a change of the configuration",
        restore.OwnedTask,
        "_replay_act",
        "if self._live_task().apply(act):",
        "if False:",
    ),
    "configuration-unrecorded": Mutant(
        "a changed configuration is applied, but not recorded",
        restore.OwnedTask,
        "step",
        "for number, text in enumerate(self._pending_acts)",
        "for number, text in enumerate(self._pending_acts if self._point.sequence < 0 else ())",
    ),
    "breaker-forgotten": Mutant(
        "the breaker does not count what is re-processed",
        restore.OwnedTask,
        "_replay_commit",
        "self.breaker.count(outputs.malformed)",
        "pass",
    ),
    "zombie-parked": Mutant(
        "who reads the progress of the next owner takes it for damage",
        worker.Worker,
        "_restore",
        "if self._is_overtaken(task):",
        "if False:",
    ),
    "snapshot-breaker": Mutant(
        "what the breaker has counted is not taken from the snapshot",
        restore.OwnedTask,
        "_take_over",
        "self.breaker.load(manifest.malformed)",
        "pass",
    ),
    "snapshot-chunks": Mutant(
        "the manifest tells places that are those of the chunks before",
        changelog.SnapshotWriter,
        "committed",
        "places.setdefault(chunk.key, offset)",
        "places.setdefault(chunk.key, offset - 1)",
    ),
    "snapshot-anchor": Mutant(
        "a snapshot holds a batch more than its inputs' offsets say",
        restore.OwnedTask,
        "advance",
        "Anchor(*batch.point, batch.offsets, progress_offsets[-1])",
        "Anchor(*batch.point, (batch.commit.examples_start, batch.commit.labels_start), progress_offsets[-1])",
    ),
    "trim-too-far": Mutant(
        "progress is deleted up to the last commit, not up to the oldest snapshot in use",
        worker.Worker,
        "_advance",
        "want(task.needed_progress)",
        "want(max(part.progress_offsets, default=0))",
    ),
    "gap-digest": Mutant(
        "behind an accepted gap the chain of digests goes on from the snapshot, not from the last commit",
        restore.OwnedTask,
        "_replay_act",
        "read_gap(act.text).digest if act.kind == SKIP else self._point.digest",
        "self._point.digest",
    ),
    "hanging-published": Mutant(
        "a task commits where a transaction hangs",
        hanging.OpenTransactions,
        "holds",
        "return any(place.partition == number for place in self._waiting)",
        "return False",
    ),
    "hanging-left": Mutant(
        "a process does not end what hangs of the one before it",
        worker.Worker,
        "start",
        "self._sweep(self._still_open.places)",
        "pass",
    ),
    "resume-forgotten": Mutant(
        "who restores a task that was resumed takes it for stopped",
        restore.OwnedTask,
        "_replay_act",
        "self._tripped = None",
        "pass",
    ),
    "trip-unrecorded": Mutant(
        "the breaker stops a task, but the commit record does not say so",
        restore.OwnedTask,
        "step",
        "tripped=tripped)",
        "tripped=None)",
    ),
    "one-sided-merge": Mutant(
        "the merge does not wait for the other side's head",
        worker.Worker,
        "_step",
        "labels_at_end=labels.at_end and len(labels) <= limit",
        "labels_at_end=True",
    ),
    "never-resumed": Mutant(
        "a partition that was paused for its size is not read again",
        worker.Worker,
        "_resume_drained",
        "self._ports.source.resume(drained)",
        "pass",
    ),
}


@contextmanager
def applied(name: str) -> Iterator[None]:
    """Break the code in this way for a while; "" breaks nothing.

    Raises:
        LookupError: There is no such mutant, or its lines are not in the function any more.
    """
    if not name:
        yield
        return
    mutant = MUTANTS[name]
    original = getattr(mutant.owner, mutant.function)
    setattr(mutant.owner, mutant.function, _changed(name, mutant, original))
    try:
        yield
    finally:
        setattr(mutant.owner, mutant.function, original)


def _changed(name: str, mutant: Mutant, original: Callable[..., Any]) -> Callable[..., Any]:
    """The function with other lines, in the module where it stands."""
    source = textwrap.dedent(inspect.getsource(original))
    first = next((line for line in source.splitlines() if mutant.lines.splitlines()[0] in line), "")
    indent = "\n" + first[: len(first) - len(first.lstrip())]
    lines, instead = (text.replace("\n", indent) for text in (mutant.lines, mutant.instead))
    if source.count(lines) != 1:
        raise LookupError(f"mutant {name}: its lines are not once in {mutant.owner.__name__}.{mutant.function}")
    changed = source.replace(lines, instead)
    made: dict[str, Any] = {}
    exec(compile(changed, f"<mutant {name}>", "exec"), original.__globals__, made)  # noqa: S102  (our own lines)
    function: Callable[..., Any] = made[mutant.function]
    return function
