"""The clients of Kafka, over records of every kind."""
