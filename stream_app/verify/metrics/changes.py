"""What a record of metrics says about flagged changes: whether it fits itself and the record before it; pure."""

from stream_app.records import Metric


def change_fault(metric: Metric, before: Metric | None) -> str | None:
    """Return what contradicts itself or the previous metric in the figures about changes; None if nothing does."""
    flagged, began, took = metric.change_flagged, metric.change_began, metric.labels_to_recover
    fault = None
    if not metric.changes:
        if (flagged, began, metric.gmean_before, took) != (None, None, None, None):
            fault = "there was none, but it is described"
    elif flagged is None or began is None or not 0 < began <= flagged <= metric.labelled:
        fault = f"flagged at {flagged}, begun at {began}, of {metric.labelled} labels"
    elif took is not None and not 0 <= took <= metric.labelled - began:
        fault = f"recovered in {took} of the {metric.labelled - began} labels since"
    return fault or (_sequel_fault(metric, before) if before is not None else None)


def _sequel_fault(metric: Metric, before: Metric) -> str | None:
    """Return what contradicts the previous metric: the count only grows, and a flagged change never changes."""
    if metric.changes < before.changes:
        return f"{metric.changes} after {before.changes}"
    if metric.changes > before.changes:
        flagged = metric.change_flagged or 0
        here = f"a new one was flagged at {flagged}, but not yet there after {before.labelled} labels"
        return here if flagged <= before.labelled else None
    names = ("change_flagged", "change_began", "gmean_before")
    same = all(getattr(metric, name) == getattr(before, name) for name in names)
    return None if same else "the last one is another than before"
