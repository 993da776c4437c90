"""Hostile input, seeded: each module runs as a test with one seed, and from the command line with any seed."""
