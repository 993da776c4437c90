"""The demo of a file of one's own: a file of payments, and the commands of the tutorial, on a real Kafka."""
