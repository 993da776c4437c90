"""Measurements of speed, each compared with a reference that runs in the same process or right next to it."""
