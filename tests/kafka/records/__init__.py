"""The fate of every kind of record, however damaged."""
