"""Tests that need a real Apache Kafka."""
