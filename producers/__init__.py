"""Producers: data sets and synthetic streams, replayed onto `examples` and, late, onto `labels`."""
