"""`python -m tests.chaos`: kill workers and brokers of a real Kafka on a seeded schedule, and check all results."""
