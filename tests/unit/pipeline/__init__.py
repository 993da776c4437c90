"""The pure stages of a task: merge, label flow, evaluation, degradation, bounds, outputs."""
