"""Pages of their own: every method tuned on a prefix, and the streams of the survey on imbalanced streams."""
