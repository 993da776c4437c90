"""The tests, in tiers; see docs/contributing.md."""
