"""The formats in which the state of a task is stored: snapshots, model files, and the texts of acts in progress. No IO.

A state that does not fit is refused with a `StateError`.

Imports only `config`. Public: `chunk_records`, `file_form`, `format`, `identity`, `imported_state`, `kept_snapshots`,
`model_file`, `moved_stream`, `needed_records`, `parts`, `row_headers`, `segments`, `skipped_inputs`, `stops`,
`task_loading`.
"""
