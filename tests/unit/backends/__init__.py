"""The in-process log, the Kafka clients with fake ones beneath, and the check of topics."""
