"""What a look at a stream has found."""

from stream_app.worker.reports.events.base import INFO, WARNING, TaskEvent, event


@event()
class StreamProblem(TaskEvent):
    """Something is wrong with a stream; one line names all streams that have the problem since the last line."""

    stream: str
    problem: str


@event("labels", WARNING, ": {streams}")
class LabelsMissing(StreamProblem):
    """Labels of some streams are missing.

    They have stopped coming, too many examples end without a label, or most of the newest labels meet no example.
    """

    stream: str
    problem: str


@event("labels", INFO, " task={task} stream={stream!r}: they are coming again")
class LabelsReturned(TaskEvent):
    """Labels of a stream are coming again."""

    stream: str
    was_reset: bool


@event("table-near-bound", WARNING, ": {streams}")
class TableNearBound(StreamProblem):
    """A table of these streams is almost full and will lose what is still needed; the line names the setting.

    Raise it, or correct what fills the table. Logged once for each stream until the table is smaller.
    """


@event()
class TableHasRoom(TaskEvent):
    """No table of a stream is near its bound any more."""

    stream: str


@event(
    "streams-near-bound",
    WARNING,
    " task={task} streams={streams} of={most}: records of further streams become dead letters with the reason "
    "unknown-stream; raise limits.max_streams_per_task",
)
class StreamsNearBound(TaskEvent):
    """A task has nearly as many streams as it may have; with `unknown_streams: model`, new ones will be refused.

    Logged once until the task has fewer. Raise the setting, or find out who sends ever new stream names.
    """

    streams: int
    most: int


@event("old-event-times", WARNING, ": {streams}")
class EventTimesOld(StreamProblem):
    """New records of these streams have event times that are close to the retention of the inputs, or beyond it.

    The broker deletes them soon, read or not. Logged once for each stream until its times are newer. Correct the
    producer, or give the inputs a longer retention (`areba topics check` prints the command).
    """


@event(
    "values-limited",
    WARNING,
    " task={task} stream={stream!r} learner={learner!r} examples={examples} steps={steps}",
)
class ValuesLimited(TaskEvent):
    """A learner has met values that a network cannot take as they stand.

    The numbers count from the task's restore: of examples with a feature beyond 1e6, which a learner without a scaler
    takes as 1e6, and of steps that a network of your own did not take because a gradient was not finite. Look for marks
    of missing values, such as 3.4e38, in what the producer sends, and set `scaler: standard`. At most one such line a
    minute; `/metrics` has all numbers.
    """

    stream: str
    learner: str
    examples: int
    steps: int


@event("features-unscaled", WARNING, ": {streams}")
class FeaturesUnscaled(StreamProblem):
    """Learners of these streams have no scaler, and a feature is so large that they learn badly.

    The line has the largest feature, or its column. Set `scaler: standard`: the learner then begins again, so try it as
    a challenger first. Logged once for each stream, after 1,000 examples, and again when a worker takes over its task.
    """

    stream: str
    problem: str


@event("drift-began", INFO, ": {streams}")
class DriftBegan(StreamProblem):
    """Features or scores of these streams have drifted: their PSI is above `drift.threshold`.

    The line has the feature that is farthest from its reference, or its column. At most one such line a minute; the
    topic `metrics` has the figures of every window. A stream has another line when a worker takes over its task.
    """

    stream: str
    problem: str


@event("drift-ended", INFO, ": {streams}")
class DriftEnded(StreamProblem):
    """The last window of these streams was like the reference, or they have a new reference.

    At most one such line a minute.
    """

    stream: str
    problem: str


@event(
    "change-flagged",
    INFO,
    " task={task} stream={stream!r} learner={learner!r} event_time_ms={event_time_ms} changes={changes} "
    "left_out={left_out}",
)
class ChangeFlagged(TaskEvent):
    """The change detector has found that a learner recognises a class worse than before.

    The line has the stream time when the worker saw it, the learner's changes so far, and the number of changes since
    the previous such line that have no line. At most five lines a minute; the topic `metrics` has every change. No
    model is reset: compare the learners with `areba watch`.
    """

    stream: str
    learner: str
    event_time_ms: int
    changes: int
    new: int
