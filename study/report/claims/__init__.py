"""Checks of the claims of the paper's text: intervals, steps, verdicts."""
