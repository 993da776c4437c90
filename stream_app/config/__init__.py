"""The settings of an application: one YAML file and the environment become one frozen, validated `Config`.

Imports `records` and `errors` alone. Public: `load` and `Config` with its sections, `changes` (what may change between
two configurations), and the bounds that other packages keep to.
"""

from stream_app.config.settings import (
    MAX_HELD,
    MAX_HELD_BYTES,
    METHOD_SETTINGS,
    METHODS,
    REFUSED_SETTINGS,
    BreakerSettings,
    ChangeDetector,
    Config,
    Corrections,
    JoinSettings,
    LearnerName,
    LearnerSettings,
    LimitSettings,
    MetricSettings,
    Running,
    StreamSettings,
    TaskSettings,
    Topics,
    begins_afresh,
    changes,
    has_setting,
    is_own,
    load,
    or_nearest,
)

__all__ = [
    "MAX_HELD",
    "MAX_HELD_BYTES",
    "METHODS",
    "METHOD_SETTINGS",
    "REFUSED_SETTINGS",
    "BreakerSettings",
    "ChangeDetector",
    "Config",
    "Corrections",
    "JoinSettings",
    "LearnerName",
    "LearnerSettings",
    "LimitSettings",
    "MetricSettings",
    "Running",
    "StreamSettings",
    "TaskSettings",
    "Topics",
    "begins_afresh",
    "changes",
    "has_setting",
    "is_own",
    "load",
    "or_nearest",
]
