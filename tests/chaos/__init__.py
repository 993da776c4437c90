"""Kills on a real Kafka, on a seeded schedule, and the proof that they left no trace: `python -m tests.chaos`."""
