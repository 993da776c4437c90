"""Ways to damage a verified log, and the findings that `areba verify` must have."""
