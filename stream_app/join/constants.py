"""The numbers by which compiled code of the join names counters, settings, states, columns and kinds of output."""

import numpy as np

from stream_app.records import MAX_LEARNERS, OutcomeKind, Reason

# `JoinArrays.counters` ------------------------------------------------------------------------------------------------

# Event time of the stream, the number of its records, and what became of them.
STREAM_TIME, ARRIVALS, EXAMPLES, LABELLED, UNLABELLED, EVICTED, DUPLICATES = 0, 1, 2, 3, 4, 5, 6
# Examples that wait for a label, labels that wait for an example, free slots; the number of the first closed id that is
# remembered and of the next one that will be; the champion; places of the hash table in use.
PENDING, WAITING, FREE, CLOSED_FIRST, CLOSED_NEXT, CHAMPION, TABLE_USED = 7, 8, 9, 10, 11, 12, 13
# With corrections: labels of class 1 as they first came, and how many more there are after the corrections.
POSITIVES, CORRECTED_POSITIVES = 14, 15
# Bytes that the waiting labels would have as dead letters.
WAITING_BYTES = 16
COUNTERS = 17

# `JoinArrays.settings` ------------------------------------------------------------------------------------------------

# An example or a label expires when it is older than LIFE_MS, a closed id when it is older than CLOSED_LIFE_MS.
LIFE_MS, CLOSED_LIFE_MS, MAX_PENDING, MAX_WAITING, MAX_CLOSED = 0, 1, 2, 3, 4
# Accepted labels between two reports; whether labels are corrected; the bound of WAITING_BYTES.
EVERY_LABELS, CORRECTS, MAX_WAITING_BYTES = 5, 6, 7
# Both halves of the key of the hash table, as the bits of two integers.
KEY_LOW, KEY_HIGH = 8, 9
SETTINGS = 10

# `JoinArrays.states` --------------------------------------------------------------------------------------------------

FREE_SLOT, IS_PENDING, IS_WAITING = 0, 1, 2

# `JoinArrays.closed_evaluations` --------------------------------------------------------------------------------------

# Labels of class 0 and of class 1 up to that of the example, inclusive; then, a bit for each learner, who had predicted
# class 1 (and from bit NO_ANSWER on, who had predicted nothing).
NEGATIVES_THEN, POSITIVES_THEN, ANSWERS = 0, 1, 2
EVALUATION_COLUMNS = 3

NO_ANSWER = MAX_LEARNERS
"""The first of the bits in `ANSWERS` that say which learners had predicted nothing."""

# `JoinOutput` ---------------------------------------------------------------------------------------------------------

# Columns of `counts` and `bounds`.
OPERATIONS, OUTCOMES, DEAD, PARKED, RELEASED, REPORTS, AMENDMENTS = 0, 1, 2, 3, 4, 5, 6
OUTPUT_KINDS = 7

# Columns of `reports`: labelled, examples, unlabelled, evicted, duplicates, pending, waiting; then the 50th, 90th and
# 99th percentile of the label delay in milliseconds (`NO_LONG`: no label yet).
REPORT_COLUMNS = 10

# Columns of `amendments`: the slot that has the id (-1: only the revision changed); the number of the closed id; the
# row of the outcome; labels of the old class and of the new class since that of the example; how many examples are
# still of the old class; the `ANSWERS` of the example.
A_SLOT, A_NUMBER, A_OUTCOME, A_OLD_AGE, A_NEW_AGE, A_LEFT, A_ANSWERS = 0, 1, 2, 3, 4, 5, 6
AMENDMENT_COLUMNS = 7

# Values of `outcome_kinds` and `dead_reasons`, as compiled code writes them.
JOINED_KIND, DUPLICATE_KIND = np.uint8(OutcomeKind.JOINED), np.uint8(OutcomeKind.DUPLICATE)
UNLABELLED_KIND, EVICTED_KIND = np.uint8(OutcomeKind.UNLABELLED), np.uint8(OutcomeKind.EVICTED)
CORRECTION_KIND = np.uint8(OutcomeKind.CORRECTION)
CONFLICTING_EXAMPLE, CONFLICTING_LABEL = np.uint8(Reason.CONFLICTING_EXAMPLE), np.uint8(Reason.CONFLICTING_LABEL)
LATE_LABEL, ORPHAN_LABEL = np.uint8(Reason.LATE_LABEL), np.uint8(Reason.ORPHAN_LABEL)

# Bounds ---------------------------------------------------------------------------------------------------------------

MAX_EVICTIONS = 10_000
"""The most examples or labels that one record evicts. One label can be as large as thousands of others and must make
room for itself; where a bound was lowered, the records that follow evict the rest, instead of one burst."""

MAX_PREFETCHED_BYTES = 1 << 14
"""The most bytes of a block that are prefetched before its stream's turn: most of a larger block would not be used."""
