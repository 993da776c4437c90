"""Check one task, and say what retention has deleted of it."""
