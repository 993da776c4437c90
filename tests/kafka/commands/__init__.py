"""The demo and the commands on a real Kafka."""
