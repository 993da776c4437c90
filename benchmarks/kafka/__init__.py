"""Benchmarks of workers on a real Kafka."""
