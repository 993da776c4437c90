"""Everything around the application: the local Kafka, and what operators need."""
