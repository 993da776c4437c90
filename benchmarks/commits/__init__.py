"""A trace of commits: where the time between two commits goes, in the worker and in the broker."""
