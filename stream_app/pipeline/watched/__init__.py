"""What a worker and `areba inspect` watch in a stream; no result depends on it."""
