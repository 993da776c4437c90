"""What becomes of every kind of record, however damaged."""
