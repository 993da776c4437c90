"""The binary formats of the records and their schemas."""
