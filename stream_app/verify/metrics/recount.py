"""Count the metrics of one task again from its predictions and outcomes; pure, and written apart from `prequential`.

A metric says how many labels its learner had accepted. These labels are the first `joined` outcomes of the stream, each
with the class of the label; the prediction of the example says what the learner had answered, class and score. So the
other topics determine the figures of each window to the bit. `windows` computes them.

A `correction` of a joined example moves its weight from one class to the other, as `prequential` defines it. Which
example that is, the reference join says: it alone knows what the join had forgotten by then. A correction of a label
that still waits changes no metric. No record says which corrections came before a metric that counts no more labels
than the metric before it, so the published figures must belong to one of the states between two labels.

A learner whose predictions are not published (`predictions: champion`) cannot be counted again, and neither can a
learner that a configuration added to a running stream: examples from before that time have no prediction by it. A
stream that was reset begins again: its first label after the reset is the first after as many as it had had.
`Recount.unknown` is the number of metrics that cannot be counted again.

Memory: predictions of examples that are not closed yet, and a byte for each label of a learner until its next metric;
the examples that are corrected later.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from stream_app.config import MetricSettings
from stream_app.records import Metric, MetricWindow, Outcome, Prediction
from stream_app.verify.metrics.joined_costs import JoinedCosts
from stream_app.verify.metrics.restarts import ActsBefore, FigureRestarts
from stream_app.verify.metrics.windows import Ages, Answer, CalibrationSums, WindowSums, answer_of
from stream_app.verify.output_checks import Output

_MAX_OPEN_EXAMPLES = 500_000
"""Examples whose predictions are kept: as many as five streams may have pending at once, some 200 MB."""

Content = TypeVar("Content")

Group: TypeAlias = list[Output[Prediction]]
"""The predictions of one example, one by each learner."""


def grouped(predictions: Iterable[Output[Prediction]]) -> Iterator[Group]:
    """Yield neighbouring predictions of one stream and id, up to the second prediction of a learner."""
    group: Group = []
    for output in predictions:
        if group:
            first, this = group[0].content, output.content
            same = first.id == this.id and first.stream == this.stream
            if not same or any(this.learner == other.content.learner for other in group):
                yield group
                group = []
        group.append(output)
    if group:
        yield group


class _Ahead(Generic[Content]):
    """An iterator whose next item can be looked at before it is taken."""

    def __init__(self, items: Iterable[Content]) -> None:
        self._items = iter(items)
        self._seen: deque[Content] = deque()

    def peek(self) -> Content | None:
        """Return the next item and leave it there; None at the end."""
        if not self._seen:
            try:
                self._seen.append(next(self._items))
            except StopIteration:
                return None
        return self._seen[0]

    def pop(self) -> Content:
        """Take the next item.

        Raises:
            IndexError: There is no further item.
        """
        item = self.peek()
        if item is None:
            raise IndexError("nothing is left")
        self._seen.popleft()
        return item


class _Move(NamedTuple):
    """How a correction changes the sums of a learner: to which class, what had been answered, and how long ago."""

    label: int
    answer: Answer
    ages: Ages


class _Joined(NamedTuple):
    """An example that is corrected later: the predictions, and the counts of both classes at its label."""

    answers: Mapping[str, Answer]
    place: tuple[int, int]


@dataclass(slots=True)
class _Learner:
    """The windows of a learner after `labelled` labels.

    `since` has what came after them: labels with what had been answered, and corrections. It is None for a learner that
    cannot be counted again. `coming` is the number of labels in `since`.
    """

    windows: Sequence[WindowSums]
    calibration: CalibrationSums
    labelled: int = 0
    since: deque[tuple[int, Answer] | _Move] | None = field(default_factory=deque)
    coming: int = 0

    def count_to(self, labelled: int) -> bool:
        """Add labels up to this count; say whether all of them are known."""
        if self.since is None or labelled < self.labelled or labelled > self.labelled + self.coming:
            return False
        while self.labelled < labelled:
            event = self.since.popleft()
            if isinstance(event, _Move):
                self._move(event)
                continue
            self.labelled += 1
            self.coming -= 1
            self.calibration.count(*event)
            for window in self.windows:
                window.count(*event)
        return True

    def count_move(self) -> bool:
        """Apply a correction, if a correction is next; say whether it is."""
        if not self.since or not isinstance(self.since[0], _Move):
            return False
        move = self.since.popleft()
        assert isinstance(move, _Move)  # noqa: S101  (for the type checker)
        self._move(move)
        return True

    def _move(self, move: _Move) -> None:
        self.calibration.move(*move)
        for window in self.windows:
            window.move(*move)


@dataclass(slots=True)
class _Stream:
    """What is counted of a stream: labels by class as they `came` and as `held` after corrections.

    `joined` has the examples that are corrected later, by their offsets. `labels` is how many labels came before the
    reset that ends this; None: it was not reset.
    """

    labels: int | None = None
    labelled: int = 0
    learners: dict[str, _Learner] = field(default_factory=dict)
    came: list[int] = field(default_factory=lambda: [0, 0])
    held: list[int] = field(default_factory=lambda: [0, 0])
    joined: dict[int, _Joined] = field(default_factory=dict)


class Recount:
    """The metrics of one partition, as predictions and outcomes give them.

    Args:
        settings: How figures fade.
        predictions: The predictions of the partition, in offset order.
        outcomes: Its outcomes.
        corrections: By the offset of the label that corrects a joined example, the offset of the example.
        restarts: When figures began again.
        costs: Those of the joined examples; None: they are not known, and the costs of decisions are not counted again.

    Attributes:
        unknown: Number of metrics that could not be counted again.
    """

    def __init__(
        self,
        settings: MetricSettings,
        predictions: Iterable[Output[Prediction]],
        outcomes: Iterable[Output[Outcome]],
        corrections: Mapping[int, int],
        restarts: FigureRestarts,
        costs: JoinedCosts | None = None,
    ) -> None:
        self.unknown = 0
        self._restarts = restarts
        self._costs = costs
        self._joined: Counter[str] = Counter()
        self._corrections = corrections
        self._corrected = frozenset(corrections.values())
        self._settings = settings
        self._groups = grouped(predictions)
        self._outcomes = _Ahead(outcomes)
        self._answers: dict[tuple[str, str], deque[Mapping[str, Answer]]] = {}
        self._streams: dict[str, list[_Stream]] = {}  # by name, one for the time up to each reset, and the last

    def fault(self, metric: Metric, place: ActsBefore) -> str | None:
        """Return what is wrong with the next metric of the topic; None if nothing is or if it is not counted again."""
        stream = self._states(metric.stream)[place.resets]
        while stream.labelled < metric.labelled:
            if self._outcomes.peek() is None:
                return f"counts {metric.labelled:,} labels; there are {stream.labelled:,} joined outcomes"
            self._take(self._outcomes.pop())
        learner = self._learner(stream, metric.learner)
        if place.begun:
            learner.since = None
        if not learner.count_to(metric.labelled):
            self.unknown += 1
            return None
        has_costs = self._costs is not None
        fault = "; ".join(_differences(metric, learner, has_costs)) or None
        while fault and self._one_more(metric.stream, learner):
            fault = "; ".join(_differences(metric, learner, has_costs)) or None
        return fault

    def _learner(self, stream: _Stream, name: str) -> _Learner:
        """Return a learner; if it is new and the stream already has labels, it cannot be counted again."""
        if name not in stream.learners:
            settings = self._settings
            windows = [WindowSums.of(fading, settings) for fading in settings.fading_factors]
            stream.learners[name] = _Learner(windows, CalibrationSums(settings.prevalence_fading_factor))
            if stream.labelled:
                stream.learners[name].since = None
        return stream.learners[name]

    def _states(self, name: str) -> list[_Stream]:
        if name not in self._streams:
            ends = [*self._restarts.labelled_at_resets(name), None]
            self._streams[name] = [_Stream(labels=labels) for labels in ends]
        return self._streams[name]

    def _state_for(self, outcome: Outcome) -> _Stream:
        """Return the state to which an outcome belongs: a state ends with the last label before the reset.

        A correction after that label belongs to the state that knows its example.
        """
        states = self._states(outcome.stream)
        at = next(k for k, state in enumerate(states) if state.labels is None or state.labelled < state.labels)
        if outcome.outcome == "correction":
            example = self._corrections.get(_offset(outcome.label_offset))
            at = next((k for k in range(at, -1, -1) if example in states[k].joined), at)
        return states[at]

    def _one_more(self, stream: str, learner: _Learner) -> bool:
        """Apply one more correction, unless the next label of the stream comes first; say whether there was one."""
        while not learner.since and (output := self._outcomes.peek()) is not None:
            if output.content.stream == stream and output.content.outcome == "joined":
                return False
            self._take(self._outcomes.pop())
        return learner.count_move()

    def _correct(self, stream: _Stream, outcome: Outcome) -> None:
        """Give a joined example another class."""
        known, label = stream.joined.get(self._corrections.get(_offset(outcome.label_offset), -1)), outcome.label or 0
        if known is None:
            return  # a label that waits was corrected
        stream.held[label] += 1
        stream.held[1 - label] -= 1
        ages = [came - place for came, place in zip(stream.came, known.place, strict=True)]
        for name, learner in stream.learners.items():
            if learner.since is not None and name in known.answers:
                moved = Ages(ages[1 - label], ages[label], stream.held[1 - label])
                learner.since.append(_Move(label, known.answers[name], moved))

    def _take(self, output: Output[Outcome]) -> None:
        outcome = output.content
        stream = self._state_for(outcome)
        if outcome.outcome == "correction":
            self._correct(stream, outcome)
        if outcome.outcome not in ("joined", "unlabelled", "evicted"):
            return
        answers = self._answers_to(outcome.stream, outcome.id)
        if outcome.outcome == "joined":
            self._join(stream, outcome, answers)

    def _join(self, stream: _Stream, outcome: Outcome, answers: Mapping[str, Answer]) -> None:
        for name in answers:
            self._learner(stream, name)
        if self._costs is not None:
            costs = self._costs.of(outcome.stream, self._joined[outcome.stream])
            answers = {name: answer._replace(costs=costs) for name, answer in answers.items()}
            self._joined[outcome.stream] += 1
        label = outcome.label or 0
        stream.labelled += 1
        stream.came[label] += 1
        stream.held[label] += 1
        if outcome.example_offset in self._corrected:
            stream.joined[_offset(outcome.example_offset)] = _Joined(answers, (stream.came[0], stream.came[1]))
        for name, learner in stream.learners.items():
            if name not in answers:
                learner.since = None
            elif learner.since is not None:
                learner.since.append((label, answers[name]))
                learner.coming += 1

    def _answers_to(self, stream: str, id_: str) -> Mapping[str, Answer]:
        """Return what each learner predicted for this example; empty if no prediction is found."""
        while (stream, id_) not in self._answers and len(self._answers) < _MAX_OPEN_EXAMPLES:
            group = next(self._groups, None)
            if group is None:
                break
            first = group[0].content
            answers = {output.content.learner: answer_of(output.content) for output in group}
            self._answers.setdefault((first.stream, first.id), deque()).append(answers)
        found = self._answers.get((stream, id_))
        if found is None:
            return {}
        answers = dict(found.popleft())
        if not found:
            del self._answers[stream, id_]
        return answers


def _offset(offset: int | None) -> int:
    return -1 if offset is None else offset


def _differences(metric: Metric, learner: _Learner, has_costs: bool) -> Iterator[str]:
    windows = learner.windows
    factors, own = [window.fading_factor for window in metric.windows], [sums.fading for sums in windows]
    if factors != own:
        yield f"the fading factors are {factors}, those of the configuration {own}"
        return
    for window, sums in zip(metric.windows, windows, strict=True):
        again = sums.figures()
        for each in fields(MetricWindow):
            value, counted = getattr(window, each.name), getattr(again, each.name)
            if value != counted and (has_costs or each.name != "cost_per_example"):
                where = f"{each.name} with the fading factor {window.fading_factor:g}"
                yield f"{where} is {value}, predictions and labels give {counted}"
    error = learner.calibration.error()
    if metric.calibration_error != error:
        yield f"calibration_error is {metric.calibration_error}, predictions and labels give {error}"
