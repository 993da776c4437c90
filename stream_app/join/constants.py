"""The numbers by which compiled code of the join names counters, settings, states, columns and kinds of output."""

from enum import IntEnum

import numpy as np

from stream_app.join.score_bins import WORDS
from stream_app.records import MAX_LEARNERS, Cause, OutcomeKind, Reason

MAX_EVICTIONS = 10_000
"""The most examples or labels that one record evicts. One label can be as large as thousands of others and must make
room for itself; where a bound was lowered, the records that follow evict the rest, instead of one burst."""


class Counter(IntEnum):
    """Columns of `JoinArrays.counters`.

    Attributes:
        STREAM_TIME: Event time of the stream in milliseconds.
        ARRIVALS: Records of the stream; then what became of them.
        PENDING: Examples that wait for a label.
        WAITING: Labels that wait for an example.
        FREE: Free slots.
        CLOSED_FIRST: The number of the first closed id that is remembered.
        CLOSED_NEXT: The number that the next closed id gets.
        CHAMPION: The index of the champion.
        TABLE_USED: Places of the hash table in use.
        POSITIVES: Labels of class 1 as they first came.
        CORRECTED_POSITIVES: How many more labels of class 1 there are after the corrections.
        WAITING_BYTES: Bytes that the waiting labels would have as dead letters.
        THRESHOLD_KIND: The `ThresholdKind` in force.
        THRESHOLD: The number of the threshold in force, as the bits of a float64.
        ADVANCED_BELOW: `advance` marks close what has a timestamp below this, and more of that was open than they could
            close; 0: they have closed all of it.
    """

    STREAM_TIME = 0
    ARRIVALS = 1
    EXAMPLES = 2
    LABELLED = 3
    UNLABELLED = 4
    EVICTED = 5
    DUPLICATES = 6
    PENDING = 7
    WAITING = 8
    FREE = 9
    CLOSED_FIRST = 10
    CLOSED_NEXT = 11
    CHAMPION = 12
    TABLE_USED = 13
    POSITIVES = 14
    CORRECTED_POSITIVES = 15
    WAITING_BYTES = 16
    THRESHOLD_KIND = 17
    THRESHOLD = 18
    ADVANCED_BELOW = 19


COUNTERS = len(Counter)


class Setting(IntEnum):
    """Columns of `JoinArrays.settings`.

    Attributes:
        LIFE_MS: An example or a label expires when it is older.
        CLOSED_LIFE_MS: A closed id is forgotten when it is older.
        MAX_PENDING: The most examples that wait.
        MAX_WAITING: The most labels that wait.
        MAX_CLOSED: The most closed ids that are remembered.
        EVERY_LABELS: Accepted labels between two reports.
        CORRECTS: Whether labels are corrected.
        MAX_WAITING_BYTES: The bound of `Counter.WAITING_BYTES`.
        EVERY_EXAMPLES: Examples between two reports, besides those of labels; 0: only those of labels.
        KEY_LOW: The lower half of the key of the hash table, as the bits of an integer.
        KEY_HIGH: The upper half.
        MAX_CLOSINGS: The most examples and labels that one record, or pair of `advance` marks, closes by their times.
    """

    LIFE_MS = 0
    CLOSED_LIFE_MS = 1
    MAX_PENDING = 2
    MAX_WAITING = 3
    MAX_CLOSED = 4
    EVERY_LABELS = 5
    CORRECTS = 6
    MAX_WAITING_BYTES = 7
    EVERY_EXAMPLES = 8
    KEY_LOW = 9
    KEY_HIGH = 10
    MAX_CLOSINGS = 11


SETTINGS = len(Setting)


class SlotState(IntEnum):
    """Values of `JoinArrays.states`: what is in a slot."""

    FREE = 0
    PENDING = 1
    WAITING = 2


class Evaluation(IntEnum):
    """Columns of `JoinArrays.closed_evaluations`.

    Attributes:
        NEGATIVES_THEN: Labels of class 0 up to the label of the example, inclusive; `NO_EVALUATION` if the example was
            closed before there were corrections, so that none can follow.
        POSITIVES_THEN: Labels of class 1, likewise.
        ANSWERS: A bit for each learner that had predicted class 1; from bit `NO_ANSWER` on, a bit for each learner that
            had predicted nothing.
        COSTS: The costs of the example, see `costs`.
        SCORE_BINS: The bins of the learners' scores, a byte each, in `score_bins.WORDS` columns from this on.
    """

    NEGATIVES_THEN = 0
    POSITIVES_THEN = 1
    ANSWERS = 2
    COSTS = 3
    SCORE_BINS = 4


EVALUATION_COLUMNS = Evaluation.SCORE_BINS + WORDS

NO_EVALUATION = -1
"""See `Evaluation.NEGATIVES_THEN`."""

NO_ANSWER = MAX_LEARNERS
"""The first of the bits in `Evaluation.ANSWERS` that say which learners had predicted nothing."""


class OutputKind(IntEnum):
    """Columns of `JoinOutput.counts` and `JoinOutput.bounds`: the kinds of what a batch gives."""

    OPERATIONS = 0
    OUTCOMES = 1
    DEAD = 2
    WAITING = 3
    RELEASED = 4
    REPORTS = 5
    AMENDMENTS = 6


OUTPUT_KINDS = len(OutputKind)

# Columns of `JoinOutput.reports`: labelled, examples, unlabelled, evicted, duplicates, pending, waiting; then the 50th,
# 90th and 99th percentile of the label delay in milliseconds (`NO_LONG`: no label yet).
REPORT_COLUMNS = 10


class Amendment(IntEnum):
    """Columns of `JoinOutput.amendments`: a label that was corrected.

    Attributes:
        SLOT: The slot that has the id; -1: only the revision changed.
        NUMBER: The number of the closed id.
        OUTCOME: The row of the outcome.
        OLD_AGE: Labels of the old class since the label of the example.
        NEW_AGE: Labels of the new class since then.
        LEFT: How many examples are still of the old class.
        ANSWERS: `Evaluation.ANSWERS` of the example.
        COSTS: `Evaluation.COSTS` of the example.
        SCORE_BINS: `Evaluation.SCORE_BINS` of the example, in `score_bins.WORDS` columns from this on.
    """

    SLOT = 0
    NUMBER = 1
    OUTCOME = 2
    OLD_AGE = 3
    NEW_AGE = 4
    LEFT = 5
    ANSWERS = 6
    COSTS = 7
    SCORE_BINS = 8


AMENDMENT_COLUMNS = Amendment.SCORE_BINS + WORDS

# Values of `outcome_kinds` and `dead_reasons`, as compiled code writes them.
JOINED_KIND, DUPLICATE_KIND = np.uint8(OutcomeKind.JOINED), np.uint8(OutcomeKind.DUPLICATE)
UNLABELLED_KIND, EVICTED_KIND = np.uint8(OutcomeKind.UNLABELLED), np.uint8(OutcomeKind.EVICTED)
CORRECTION_KIND = np.uint8(OutcomeKind.CORRECTION)
CONFLICTING_EXAMPLE, CONFLICTING_LABEL = np.uint8(Reason.CONFLICTING_EXAMPLE), np.uint8(Reason.CONFLICTING_LABEL)
LATE_LABEL, ORPHAN_LABEL = np.uint8(Reason.LATE_LABEL), np.uint8(Reason.ORPHAN_LABEL)

ADVANCED_KIND = np.uint8(255)
"""In `closed_outcomes`: the example ended `unlabelled` because an `advance` mark closed it, not because it expired."""

POOL_KIND = np.uint8(254)
"""In `closed_outcomes`: the example ended `evicted` because the tables of the task had too many bytes."""

# Values of `dead_causes`.
NO_CAUSE = np.uint8(Cause.NONE)
EXPIRED_EXAMPLE, EVICTED_EXAMPLE = np.uint8(Cause.EXPIRED_EXAMPLE), np.uint8(Cause.EVICTED_EXAMPLE)
ADVANCED_EXAMPLE, LATE_EXAMPLE = np.uint8(Cause.ADVANCED_EXAMPLE), np.uint8(Cause.LATE_EXAMPLE)
EXPIRED_LABEL, ADVANCED_LABEL = np.uint8(Cause.EXPIRED_LABEL), np.uint8(Cause.ADVANCED_LABEL)
OLD_LABEL, LARGE_LABEL = np.uint8(Cause.OLD_LABEL), np.uint8(Cause.LARGE_LABEL)
POOL_EXAMPLE, POOL_LABEL = np.uint8(Cause.POOL_EXAMPLE), np.uint8(Cause.POOL_LABEL)
TOO_MANY_LABELS, TOO_MANY_BYTES = np.uint8(Cause.TOO_MANY_LABELS), np.uint8(Cause.TOO_MANY_BYTES)

# Bounds ---------------------------------------------------------------------------------------------------------------

MAX_PREFETCHED_BYTES = 1 << 14
"""The most bytes of a block that are prefetched before its stream's turn: most of a larger block would not be used."""
