"""The tests, in tiers; see the README."""
