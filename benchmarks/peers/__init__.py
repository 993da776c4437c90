"""Other stream processors on the same records: `make bench-peers` writes docs/benchmarks.md."""
