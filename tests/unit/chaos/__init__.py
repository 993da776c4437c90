"""The parts of the chaos test that need no Kafka."""
