"""Models in files: one learner in one file, and backups of a whole application."""
