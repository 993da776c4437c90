"""Speeds, each beside a reference that runs in the same process or right next to it."""
