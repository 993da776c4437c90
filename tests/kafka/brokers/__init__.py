"""Brokers that start, fail, come back, and refuse clients."""
