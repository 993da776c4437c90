"""Bytes to records and back: Avro values in batches of columns, and the format of dead letters.

Decoding never fails as a whole: a record that cannot be decoded gets a reason and keeps its place in the batch.

May import `jit`. Public: `codec.decode`, `codec.encode`, `avro` for values one by one, `dead_letter`.
"""
