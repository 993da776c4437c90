"""The study: its experiments, runs, statistics and report."""
