"""Records as bytes: Avro or JSON values, and the headers of dead letters.

`decode` and `encode` work on batches, for the stages; `codec` on one record, for tools; `one_value` reads one without
Numba. `avro` has the schemas and the checks of bytes that they share, `layout` the check of one value, `names` the
tables of stream names. `json_value` reads one value in JSON and `json_text` writes one; `json_batch` makes Avro of a
batch, `json_rows` writes outputs. `resolution` makes our values of other writers' (`conversions`, `avro_skip`), and
`writer_batch` of a batch. `wire_format` has the headers that name the schemas of values, `registered_schemas` what a
registry has. `dead_letter` reads and writes the dead letters, `left_out` what they omit.

May import `jit` and `config`. Public: `avro`, `codec`, `dead_letter`, `decode`, `encode`, `erased_ids`,
`json_value`, `label_causes`, `left_out`, `names`, `one_value`, `public_types`, `registered_schemas`,
`resolution`, `wire_format`, `writer_schema`.
"""
