"""A metric whose numbers are all different, so that a mix-up shows."""

from stream_app.records import Metric


def metric(labelled: int = 900, gmean: float | None = 0.9143, stream: str = "fraud", learner: str = "areba") -> Metric:
    """Return a metric; `areba` is the champion."""
    return Metric(
        stream=stream,
        learner=learner,
        champion=learner == "areba",
        labelled=labelled,
        recall=None if gmean is None else 0.8361,
        specificity=None if gmean is None else 0.9999,
        gmean=gmean,
        positive_correct=1.0,
        positive_total=2.0,
        negative_correct=3.0,
        negative_total=4.0,
        positive_size=0.1,
        negative_size=0.9,
        positive_queue=5,
        negative_queue=6,
        positive_capacity=10,
        negative_capacity=10,
        updates=labelled,
        examples=labelled + 1_100,
        unlabelled=77,
        evicted=0,
        duplicates=0,
        pending=3,
        waiting=0,
        delay_ms_p50=84_000,
        delay_ms_p90=None,
        delay_ms_p99=None,
        changes=12,
        change_flagged=None,
        change_began=None,
        gmean_before=None,
        labels_to_recover=None,
        event_time_ms=labelled,
    )
