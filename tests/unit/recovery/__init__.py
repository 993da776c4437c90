"""Restore after crashes, and the changelog."""
