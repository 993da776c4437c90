"""An application on a real Kafka: its records, its worker processes, its commits, and a second computation."""
