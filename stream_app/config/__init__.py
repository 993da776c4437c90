"""The settings of an application: one YAML file and the environment become one frozen, validated `Config`.

`load` reads and validates; errors name the line and the setting. `Config` is what one process runs with; its part that
changes a result, `TaskSettings`, is stored in the progress topic, and `changes` says what a running application may
take over. `memory_bound` computes the memory of a worker from them.

May import `records` and `errors` only. Public: the names in `__all__`, and `column_settings`, `memory_bound`,
`settings`, `table_bytes`, `task_settings`, `values`.
"""

from stream_app.config.client_settings import REFUSED_SETTINGS
from stream_app.config.column_settings import CategorySettings, ColumnSettings
from stream_app.config.compatibility import Running, changes, must_restart
from stream_app.config.decision_settings import CostSettings, ThresholdSettings, threshold_of
from stream_app.config.drift_settings import MIN_WINDOW_EXAMPLES, DriftSettings
from stream_app.config.learner_settings import METHODS, LearnerSettings, has_setting, is_own
from stream_app.config.loading import DEFAULT, Effective, effective, load, read_threshold
from stream_app.config.messages import or_nearest
from stream_app.config.methods import METHOD_FACTS
from stream_app.config.settings import BreakerSettings, Config
from stream_app.config.task_settings import (
    MAX_HELD,
    MAX_HELD_BYTES,
    MAX_PENDING,
    ChangeDetector,
    Corrections,
    JoinSettings,
    LimitSettings,
    MetricSettings,
    StreamSettings,
    TaskSettings,
)
from stream_app.config.topics import Topics
from stream_app.config.values import LearnerName

__all__ = [
    "DEFAULT",
    "MAX_HELD",
    "MAX_HELD_BYTES",
    "MAX_PENDING",
    "METHODS",
    "METHOD_FACTS",
    "MIN_WINDOW_EXAMPLES",
    "REFUSED_SETTINGS",
    "BreakerSettings",
    "CategorySettings",
    "ChangeDetector",
    "ColumnSettings",
    "Config",
    "Corrections",
    "CostSettings",
    "DriftSettings",
    "Effective",
    "JoinSettings",
    "LearnerName",
    "LearnerSettings",
    "LimitSettings",
    "MetricSettings",
    "Running",
    "StreamSettings",
    "TaskSettings",
    "ThresholdSettings",
    "Topics",
    "changes",
    "effective",
    "has_setting",
    "is_own",
    "load",
    "must_restart",
    "or_nearest",
    "read_threshold",
    "threshold_of",
]
