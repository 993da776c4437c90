"""The in-process log, the Kafka clients with fake ones underneath, and the check of topics."""
