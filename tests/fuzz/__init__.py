"""Hostile input, seeded: each module runs as a test with one seed, and by hand with any."""
