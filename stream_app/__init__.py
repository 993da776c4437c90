"""Online learning on Kafka streams that are imbalanced, that drift, and whose labels come late."""

__version__ = "1.0.0"
