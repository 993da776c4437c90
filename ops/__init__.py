"""Tools around the application: a local Kafka, the demo, deployment and monitoring."""
