"""What may change between two configurations of a running application."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from stream_app.config.column_settings import ColumnSettings, columns_as_list, is_growth
from stream_app.config.decision_settings import ThresholdSettings
from stream_app.config.lane_settings import lanes_by_stream
from stream_app.config.learner_settings import LearnerSettings
from stream_app.config.task_settings import StreamSettings, TaskSettings
from stream_app.config.values import Change

_REMEDY = (
    "set it back, or start another application.id with another kafka.output_prefix on the same inputs (`areba state "
    "import` gives it this application's models)"
)

_LANES_CHANGE = (
    "cannot be: labels would go to other lanes than the examples that wait for them, and models have learned from the "
    "examples of their lanes. Set it back, or use another stream name"
)

_HOLDS = "holds from now on"
_PROMOTED = "was promoted, until the file has another one"
_RESTARTS = "starts again"
_GROWS = "keeps what was learned; the weights of new features begin at 0"
_CANNOT_SHRINK = (
    "cannot be: what was learned belongs to the former columns. Columns may be added, a category may get more places "
    "(`most`), and a column `missing: mean`; for anything else, use another stream name"
)


class Running(NamedTuple):
    """What a change of settings must know about a stream that has state.

    Attributes:
        features: Number of features of an example; 0 when no example has come.
        champion: The present champion.
        awaited: Learners that, as champion, predicted examples that still wait for a label.
        threshold: The threshold in force.
    """

    features: int
    champion: str
    awaited: frozenset[str]
    threshold: ThresholdSettings


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences between two `TaskSettings` that matter to the running streams.

    Attributes:
        taken_over: One line for each difference that takes effect.
        refused: One line for each difference that a running application cannot take over; if it is empty, the new
            settings may be used.
        kept: One line for each promoted threshold that stays, although the file has another one.
    """

    taken_over: tuple[str, ...]
    refused: tuple[str, ...]
    kept: tuple[str, ...] = ()

    @property
    def restarting(self) -> tuple[str, ...]:
        """The lines of `taken_over` whose learners start again without their state."""
        return tuple(line for line in self.taken_over if line.endswith(_RESTARTS))


def changes(old: TaskSettings, new: TaskSettings, running: Mapping[str, Running]) -> Changes:
    """Compare two configurations of a running application.

    Earlier outputs stay reproducible, since the progress topic records each change of the settings. A change is refused
    when the existing state would not fit the new settings. `old` are the settings in force; all settings of streams
    that are not `running` may change.
    """
    lanes_before, lanes = lanes_by_stream(old.streams), lanes_by_stream(new.streams)
    taken = [f"streams.{name}: is new" for name in lanes if name not in lanes_before]
    refused = [f"streams.{name}: was removed: {_REMEDY}" for name in lanes_before if name not in lanes]
    refused += [
        f"streams.{name}.lanes: {lanes_before[name] or 'none'} -> {number or 'none'} {_LANES_CHANGE}"
        for name, number in lanes.items()
        if lanes_before.get(name, number) != number
    ]
    apart = {"streams", "default_stream", "writer_schemas"}
    before, after = (_leaves(settings.model_dump(mode="json", exclude=apart)) for settings in (old, new))
    for key, value in after.items():
        if before.get(key) != value:
            text = f"{key}: {before.get(key)} -> {value}"
            if TaskSettings.change_of(key) is Change.TAKEN_OVER:
                taken.append(f"{text} {_HOLDS}")
            else:
                refused.append(f"{text} would change results: {_REMEDY}")
    others = [schema_id for schema_id in new.writer_schemas if schema_id not in old.writer_schemas]
    taken += [f"serialization.writer_schemas: {schema_id} is new" for schema_id in others]
    refused += _renamed_schemas(old, new)
    streams_of: dict[_StreamChange, list[str]] = {}
    kept_of: dict[str, list[str]] = {}
    for name, now in running.items():
        one, two = (settings.of_stream(name) for settings in (old, new))
        for change in _stream_changes(one, two, now):
            streams_of.setdefault(change, []).append(name)
        if one.threshold == two.threshold != now.threshold:
            kept_of.setdefault(f"{now.threshold} in place of the file's {two.threshold}", []).append(name)
    for change, names in sorted(streams_of.items()):
        (refused if change.is_refused else taken).append(f"{change.text} {_among(names)} {change.outcome}")
    kept = (f"threshold: {text} {_among(names)} {_PROMOTED}" for text, names in sorted(kept_of.items()))
    return Changes(tuple(taken), tuple(refused), tuple(kept))


def _among(names: Sequence[str]) -> str:
    """Return the names of streams for a line, or some of them."""
    return f"(streams: {', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''})"


def _renamed_schemas(old: TaskSettings, new: TaskSettings) -> Iterator[str]:
    """Yield a line for each schema id that means another schema than it did."""
    before = {schema_id: name for name, ids in old.schema_ids.items() for schema_id in ids}
    for number, text in new.writer_schemas.items():
        if int(number) in before or old.writer_schemas.get(number, text) != text:
            subject = f"serialization.writer_schemas: {number} was the id of another schema"
            yield f"{subject}: this is another schema registry than before; {_REMEDY}"
    before |= dict.fromkeys(map(int, old.writer_schemas), "that of another writer")
    for name, ids in new.schema_ids.items():
        for schema_id in ids:
            if before.get(schema_id, name) != name:
                text = f"serialization.schema_ids: {schema_id} was {before[schema_id]} and is {name} now"
                yield f"{text}: this is another schema registry than before; {_REMEDY}"


class _StreamChange(NamedTuple):
    """A change of one setting, without the stream: it may be the same in many streams."""

    text: str
    outcome: str
    is_refused: bool


def _stream_changes(old: StreamSettings, new: StreamSettings, now: Running) -> Iterator[_StreamChange]:
    if list(old.columns.items()) != list(new.columns.items()):
        text = f"columns: {_shown(old.columns, new.columns)} -> {_shown(new.columns, old.columns)}"
        has_grown = is_growth(old.columns, new.columns)
        outcome = _GROWS if has_grown else _CANNOT_SHRINK
        yield _StreamChange(text, outcome, now.features > 0 and not has_grown)
        for name in (name for name, learner in new.learners.items() if has_grown and not learner.is_dense):
            yield _StreamChange(f"learners.{name}: its network or method is your own", _RESTARTS, False)
    if old.missing_values != new.missing_values:
        yield _StreamChange(f"missing_values: {list(old.missing_values)} -> {list(new.missing_values)}", _HOLDS, False)
    if old.features != new.features and not (old.columns or new.columns):
        fits = not now.features or new.features in (None, now.features)
        outcome = _HOLDS if fits else f"cannot be: its examples have {now.features} numbers. Use another stream name"
        yield _StreamChange(f"features: {old.features} -> {new.features}", outcome, not fits)
    yield from _decision_changes(old, new, now)
    yield from _removals(old, new, now)
    if [name for name in old.learners if name in new.learners] != [
        name for name in new.learners if name in old.learners
    ]:
        yield _StreamChange(f"learners: {', '.join(old.learners)} -> {', '.join(new.learners)}", _HOLDS, False)
    for name, settings in new.learners.items():
        if name not in old.learners:
            yield _StreamChange(f"learners.{name}: is new", "begins here", False)
            continue
        before, after = _leaves(old.learners[name].model_dump(mode="json")), _leaves(settings.model_dump(mode="json"))
        for key in dict.fromkeys((*before, *after)):
            if before.get(key) != after.get(key):
                outcome = _HOLDS if _keeps_state(key) else _RESTARTS
                yield _StreamChange(f"learners.{name}.{key}: {before.get(key)} -> {after.get(key)}", outcome, False)


def _shown(columns: Mapping[str, ColumnSettings], others: Mapping[str, ColumnSettings]) -> str:
    """Return the names of columns, and what is different of those that both have."""
    texts = {one["name"]: json.dumps(one) for one in columns_as_list(columns)}
    return (
        ", ".join(name if column == others.get(name, column) else texts[name] for name, column in columns.items())
        or "none"
    )


def _decision_changes(old: StreamSettings, new: StreamSettings, now: Running) -> Iterator[_StreamChange]:
    if new.champion not in {old.champion, now.champion}:
        text = f"champion: {old.champion} -> {new.champion}"
        yield _StreamChange(text, f"needs a mark: `areba promote STREAM {new.champion}`; set it back until then", True)
    if old.costs != new.costs:
        outcome = (
            "cannot be: examples with costs wait for their labels; set both costs to 0" if new.costs is None else _HOLDS
        )
        yield _StreamChange(f"costs: {old.costs or 'none'} -> {new.costs or 'none'}", outcome, new.costs is None)
    if old.threshold != new.threshold:
        is_promoted = new.threshold == now.threshold
        before, outcome = (old.threshold, "holds already: it was promoted") if is_promoted else (now.threshold, _HOLDS)
        yield _StreamChange(f"threshold: {before} -> {new.threshold}", outcome, False)
    if old.drift != new.drift:
        yield _StreamChange(f"drift: {old.drift or 'none'} -> {new.drift or 'none'}", _HOLDS, False)


def _removals(old: StreamSettings, new: StreamSettings, now: Running) -> Iterator[_StreamChange]:
    for name in old.learners:
        if name in new.learners:
            continue
        if name == now.champion:
            yield _StreamChange(f"learners.{name}: was removed", "but is the champion: promote another one first", True)
        elif name in now.awaited:
            outcome = "but examples that it predicted as champion wait for labels: remove it when they are closed"
            yield _StreamChange(f"learners.{name}: was removed", outcome, True)
        else:
            yield _StreamChange(f"learners.{name}: was removed", "is dropped here", False)


def must_restart(old: LearnerSettings, new: LearnerSettings) -> bool:
    """Say whether a learner must restart because its state does not fit the new settings."""
    before, after = old.model_dump(mode="json"), new.model_dump(mode="json")
    return any(before.get(key) != after.get(key) for key in (*before, *after) if not _keeps_state(key))


def _keeps_state(path: str) -> bool:
    return LearnerSettings.change_of(path) is Change.TAKEN_OVER


def _leaves(data: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """Return the values of nested sections by their dotted paths."""
    leaves: dict[str, object] = {}
    for name, value in data.items():
        leaves |= _leaves(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return leaves
