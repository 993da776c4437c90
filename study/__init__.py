"""The paper's experiments and ours, run through the worker's own stages: tables, figures, statistics."""
