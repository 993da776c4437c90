"""Metrics for tests: one whose numbers are all different, so that a mix-up shows; and what to do with others."""

from dataclasses import fields, replace

from stream_app.records import Metric, MetricWindow


def with_main_window(changed: Metric, **figures: float | None) -> Metric:
    """Return a metric with other figures in its main window."""
    main, *others = changed.windows
    return replace(changed, windows=(replace(main, **figures), *others))  # type: ignore[arg-type]


def window(fading: float, **figures: float) -> MetricWindow:
    """Return a window with these figures; sums that are not given are 0, other figures None."""
    sums = dict.fromkeys((each.name for each in fields(MetricWindow) if each.type is float), 0.0)
    rest = dict.fromkeys(each.name for each in fields(MetricWindow) if each.type is not float)
    return MetricWindow(**(rest | sums | figures | {"fading_factor": fading}))  # type: ignore[arg-type]


def sums_in(window: MetricWindow) -> list[float]:
    """Return the prequential sums of a window: right predictions and labels of class 1, then of class 0."""
    return [window.positive_correct, window.positive_total, window.negative_correct, window.negative_total]


def metric(labelled: int = 900, gmean: float | None = 0.9143, stream: str = "fraud", learner: str = "areba") -> Metric:
    """Return a metric; `areba` is the champion."""
    return Metric(
        stream=stream,
        learner=learner,
        champion=learner == "areba",
        labelled=labelled,
        windows=(
            MetricWindow(
                fading_factor=0.99,
                recall=None if gmean is None else 0.8361,
                specificity=None if gmean is None else 0.9999,
                gmean=gmean,
                prevalence=None if gmean is None else 0.0123,
                precision=None if gmean is None else 0.7654,
                f1=None if gmean is None else 0.7992,
                kappa=None if gmean is None else 0.7911,
                roc_auc=None if gmean is None else 0.9871,
                average_precision=None if gmean is None else 0.8123,
                cost_per_example=None,
                positive_correct=1.0,
                positive_total=2.0,
                negative_correct=3.0,
                negative_total=4.0,
            ),
            MetricWindow(1.0, 0.25, 0.35, 0.45, 0.05, 0.15, 0.16, 0.17, 0.18, 0.19, 0.21, 11.0, 12.0, 13.0, 14.0),
        ),
        calibration_error=0.0321,
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
        drift_examples=None,
        score_psi=None,
        largest_feature_psi=None,
        largest_feature=None,
        features_drifted=None,
        event_time_ms=labelled,
    )
