"""Restore after crashes, the changelog, the breaker, and transactions that were left open."""
