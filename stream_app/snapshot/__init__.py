"""The formats in which the state of a task is stored: snapshots, model files, and the texts of acts in progress. No IO.

Formats of earlier versions stay readable. A state that does not fit is refused with a `StateError`.

Imports only `config`. Public: `format`, `segments`, `parts`, `imported_state`, `skipped_inputs`, `model_file` and
`identity`.
"""
