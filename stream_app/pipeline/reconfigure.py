"""The streams of a task under other settings: their state is exported as arrays, adapted, and loaded into new streams.

Columns that are added have features whose weights begin at zero: see `learners.wider_state`.

State that does not depend on learners does not change. A learner of the same name keeps its state or, if a setting that
shapes the state has changed, starts again from the beginning; it keeps its prequential sums and calibration, because
examples that it predicted before still wait for their labels, and the scores of its alerts. A new learner has not
predicted these examples: they do not count for it, but it learns from them.

Under a lower bound, the oldest closed ids and open marks are forgotten at once. Examples and labels in excess are
closed by the records that follow, since only a record has outputs. `config.changes` has refused all changes that cannot
be made in this way.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Longs
from stream_app.config import Corrections, JoinSettings, StreamSettings, TaskSettings, must_restart
from stream_app.config.column_settings import places_in, width_of
from stream_app.join.constants import EVALUATION_COLUMNS, NO_ANSWER, NO_EVALUATION, Counter, Evaluation
from stream_app.join.score_bins import WORDS
from stream_app.learners.api import Operations
from stream_app.learners.online import SEEN
from stream_app.learners.wider_state import AddedFeatures
from stream_app.pipeline.preparation.growth import grown
from stream_app.pipeline.prequential import UNPREDICTED
from stream_app.pipeline.stream import Stream
from stream_app.pipeline.stream_set import Streams
from stream_app.pipeline.stream_state import (
    COSTS,
    EVALUATIONS,
    KEPT_COUNTERS,
    StreamState,
    counter_of,
    load_stream,
    without_seen,
)
from stream_app.records import Operation
from stream_app.snapshot.format import Arrays, Columns, named, without_prefix

_NOWHERE = -1


class _Origin(NamedTuple):
    """A learner's number before the change (`_NOWHERE`: it is new), and whether it restarts with a new state."""

    number: int
    restarts: bool


def needs_rebuilding(before: TaskSettings, after: TaskSettings, running: Sequence[str]) -> bool:
    """Say whether the change affects streams that have state."""
    apart = {"streams", "default_stream"}
    if before.model_dump(exclude=apart) != after.model_dump(exclude=apart):
        return True
    return any(_dump(before, name) != _dump(after, name) for name in running)


def rebuilt(streams: Streams, before: TaskSettings, after: TaskSettings) -> Streams:
    """Return the same streams, in their order, under other settings."""
    new = Streams(after, streams.hash_key, streams.seed_of)
    new.passed_bytes = streams.passed_bytes
    same_detector = before.metrics.change_detector == after.metrics.change_detector
    for stream in streams:
        one, two = (settings.of_stream(stream.name) for settings in (before, after))
        added = _added_features(one, two)
        origins = list(_origins(one, two, has_added=added is not None))
        opened = new.open(stream.name, two, stream.features if added is None else added.width)
        is_same = _dump(before, stream.name) == _dump(after, stream.name)
        _carry_over(stream, opened, origins, added, after.join, same_detector, is_same)
        if one.threshold != two.threshold:  # otherwise a mark may have changed what is in force
            opened.decide_by(two.threshold)
    return new


def _dump(settings: TaskSettings, stream: str) -> Mapping[str, Any]:
    """Return the settings of a stream with the learners in their order, which equal mappings need not share."""
    return settings.of_stream(stream).model_dump(mode="json")


def _added_features(before: StreamSettings, after: StreamSettings) -> AddedFeatures | None:
    """Return the features of columns that are new or have grown; None: the features stay."""
    if width_of(before.columns) == width_of(after.columns):
        return None
    return AddedFeatures(np.array(places_in(before.columns, after.columns), np.int64), width_of(after.columns))


def _origins(before: StreamSettings, after: StreamSettings, *, has_added: bool) -> Iterator[_Origin]:
    numbers = {name: number for number, name in enumerate(before.learners)}
    for name, settings in after.learners.items():
        number = numbers.get(name, _NOWHERE)
        is_other = number == _NOWHERE or must_restart(before.learners[name], settings)
        yield _Origin(number, is_other or (has_added and not settings.is_dense))


def _carry_over(
    old: Stream,
    new: Stream,
    origins: Sequence[_Origin],
    added: AddedFeatures | None,
    join: JoinSettings,
    same_detector: bool,
    is_same: bool,
) -> None:
    state = StreamState(old)
    core = state.core_state()
    numbers = np.full(len(old.learner_names), _NOWHERE)
    for number, origin in enumerate(origins):
        if origin.number != _NOWHERE:
            numbers[origin.number] = number
    kept: Columns = {name: array for name, array in core.items() if not name.startswith(("learner.", "sums."))}
    first, end = state.closed_span()
    first = max(first, end - join.max_closed_per_stream)
    kept["counters"] = _with_champion(core, numbers)
    kept["counters"][KEPT_COUNTERS.index(Counter.CLOSED_FIRST)] = first
    for number, origin in enumerate(origins):
        kept |= named(f"learner.{number}.", _learner(core, new, number, origin, added))
        kept |= named(f"sums.{number}.", _sums(core, new, number, origin, same_detector))
    if added is not None and new.preparation is not None:
        learned = grown(without_prefix(core, "columns."), old.settings.columns, new.preparation, added.places)
        kept |= named("columns.", learned)
        kept["features_count"] = np.array([added.width])
    if new.drift is not None and not (is_same and old.drift is not None):  # a new reference
        counts = (counter_of(core, which) for which in (Counter.EXAMPLES, Counter.LABELLED))
        kept |= named("drift.", new.drift_from(*counts))
    pending = _pending(state, new, origins, numbers, added)
    load_stream(new, kept, pending, _closed(state.closed_rows(first, end), origins, join.corrections))
    _see(new, origins, len(pending["ids"]))


def _learner(core: Arrays, new: Stream, number: int, origin: _Origin, added: AddedFeatures | None) -> Columns:
    known = without_prefix(core, f"learner.{origin.number}.")
    if not new.learners or (known and not origin.restarts and added is None):
        return known
    fresh = without_seen(new.learners[number].arrays())
    if origin.restarts or not known or added is None:
        return fresh
    hidden = new.settings.learners[new.learner_names[number]].hidden
    return added.state(known, fresh, hidden[0] if hidden else 1)


def _sums(core: Arrays, new: Stream, number: int, origin: _Origin, same_detector: bool) -> Columns:
    """Return sums, calibration and the change monitor's state; another detector starts from the beginning."""
    new.changes[number].begin_after(counter_of(core, Counter.LABELLED))
    parts = new.prequential[number], new.calibrations[number], new.alerts[number]
    own = {name: array for part in parts for name, array in part.arrays().items()}
    change = new.changes[number].arrays()
    known = without_prefix(core, f"sums.{origin.number}.")
    return {**own, **change, **{name: array for name, array in known.items() if same_detector or name in own}}


def _with_champion(core: Arrays, numbers: Longs) -> Longs:
    """Return the counters with the champion's new number; `numbers` is int64, the new number of each old learner."""
    counters = np.array(core["counters"], np.int64)
    at = KEPT_COUNTERS.index(Counter.CHAMPION)
    counters[at] = numbers[counters[at]]
    return counters


def _pending(
    state: StreamState, new: Stream, origins: Sequence[_Origin], numbers: Longs, added: AddedFeatures | None
) -> Columns:
    """Return the rows of pending examples, with a column for each learner as there are now."""
    before = state.pending_rows(state.pending_arrivals())
    count = len(before["ids"])
    if added is not None:
        wide = {name: added.rows(array) for name, array in before.items() if _has_features(name, array)}
        before = {**before, **wide}
    rows = {name: array for name, array in before.items() if not name.startswith(f"{SEEN}.")}
    rows["features"] = np.reshape(before["features"], (count, new.features))
    costs = rows.pop(COSTS, np.full((count, 2), np.nan, np.float32))
    if new.settings.costs is not None:
        rows[COSTS] = costs
    rows["champions"] = numbers[before["champions"]].astype(np.int32)
    answers: Columns = {
        "scores": np.zeros((count, len(origins)), np.float32),
        "probabilities": np.zeros((count, len(origins)), np.float32),
        "classes": np.full((count, len(origins)), UNPREDICTED, np.int8),
    }
    for number, origin in enumerate(origins):
        if origin.number != _NOWHERE:
            for name, column in answers.items():
                column[:, number] = before[name][:, origin.number]
        if new.learners and SEEN in (arrays := new.learners[number].arrays()):
            blank = np.zeros((count, *arrays[SEEN].shape[1:]), arrays[SEEN].dtype)
            rows[f"{SEEN}.{number}"] = blank if origin.restarts else before[f"{SEEN}.{origin.number}"]
    return {**rows, **answers}


def _has_features(name: str, array: NDArray[Any]) -> bool:
    """Say whether an array of pending examples has their features, as they came or as a learner scaled them."""
    return name == "features" or (name.startswith(f"{SEEN}.") and array.dtype == np.float32)  # RELAY sees no features


def _closed(closed: Arrays, origins: Sequence[_Origin], corrections: Corrections) -> Columns:
    """Return the rows of closed ids, with what each learner predicted, if there are corrections.

    Where corrections begin, the ids that were closed before cannot be corrected: what was predicted is not known.
    """
    rows = dict(closed)
    known = rows.pop(EVALUATIONS, None)
    if corrections == "first":
        return rows
    if known is None:
        never = np.zeros((len(rows["closed_ids"]), EVALUATION_COLUMNS), np.int64)
        never[:, Evaluation.NEGATIVES_THEN] = NO_EVALUATION
        return {**rows, EVALUATIONS: never}
    evaluations = np.asarray(known, np.int64)
    before, after = evaluations[:, Evaluation.ANSWERS], np.zeros(len(evaluations), np.int64)
    bins = np.zeros((len(evaluations), WORDS), np.int64)
    for number, origin in enumerate(origins):
        if origin.number == _NOWHERE:
            after |= np.int64(1) << (NO_ANSWER + number)
        else:
            after |= ((before >> origin.number) & 1) << number
            after |= ((before >> (NO_ANSWER + origin.number)) & 1) << (NO_ANSWER + number)
            word = evaluations[:, Evaluation.SCORE_BINS + origin.number // 8]
            bins[:, number // 8] |= ((word >> 8 * (origin.number % 8)) & 255) << 8 * (number % 8)
    costs = evaluations[:, Evaluation.COSTS]
    return {**rows, EVALUATIONS: np.column_stack([evaluations[:, : Evaluation.ANSWERS], after, costs, bins])}


def _see(stream: Stream, origins: Sequence[_Origin], pending: int) -> None:
    """Let new scalers scale the pending examples, by arrival, since learners learn examples as they were scaled."""
    if not pending:
        return
    state = stream.join.arrays()
    slots = np.arange(pending, dtype=np.int32)
    operations = Operations(np.full(pending, Operation.PREDICT, np.uint8), slots, np.full(pending, -1, np.int8))
    for learner, origin in zip(stream.learners, origins, strict=True):
        if origin.restarts and SEEN in learner.arrays():
            learner.run(operations, state["features"], state["ids"])
