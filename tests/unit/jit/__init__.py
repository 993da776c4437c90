"""Compiled code: its cache, and the memory that it is given."""
