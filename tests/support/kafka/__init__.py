"""An application on a real Kafka: its records, its worker processes, what it has committed, and a second opinion."""
