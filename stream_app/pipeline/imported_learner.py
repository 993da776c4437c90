"""The state of a learner that was imported, on its way into a stream of a task."""

from stream_app.config import StreamSettings, must_restart
from stream_app.config.column_settings import columns_text
from stream_app.errors import StateError
from stream_app.learners.online import SEEN
from stream_app.pipeline.stream_set import Streams
from stream_app.pipeline.stream_state import learner_state
from stream_app.snapshot.imported_state import ImportedModel


def load_import(imported: ImportedModel, settings: StreamSettings | None, streams: Streams, max_features: int) -> None:
    """Give a learner an imported state.

    Args:
        imported: The state, and the learner for which it is.
        settings: The settings of its stream; None: no such stream is configured.
        streams: The streams of the task; a stream of which no record has come is opened.
        max_features: The most features that an example may have.

    Raises:
        StateError: The state does not fit the configuration or the stream.
    """
    where = f"imported model for learner {imported.learner!r} of stream {imported.stream!r}"
    if settings is None or imported.learner not in settings.learners:
        raise StateError(f"{where}: the configuration has no such learner")
    if must_restart(imported.settings, settings.learners[imported.learner]):
        raise StateError(f"{where}: its settings differ from those of this learner")
    if not 0 < imported.features <= max_features:
        raise StateError(f"{where}: it has {imported.features} features; limits.max_features is {max_features}")
    if columns_text(settings.columns) != imported.columns.text:
        raise StateError(f"{where}: it has other columns than the stream")
    if streams.number_of(imported.stream) < 0:
        streams.open(imported.stream, settings)
    number = streams.number_of(imported.stream)
    if not streams.dimensions[number]:
        streams.set_features(number, imported.features)
    if streams.dimensions[number] != imported.features:
        raise StateError(f"{where}: it has {imported.features} features, the stream has {streams.dimensions[number]}")
    stream = streams[number]
    learner = stream.learners[stream.learner_names.index(imported.learner)]
    mine = learner.arrays()
    seen = {SEEN: mine[SEEN]} if SEEN in mine else {}
    try:
        if stream.preparation is not None:
            stream.preparation.take_over(imported.columns)
        learner.load(learner_state(mine, dict(imported.state), seen))
    except StateError as problem:
        raise problem.within(where) from problem
