"""What is stored of a task: the formats of snapshots, of models in files, and of recorded acts. No IO.

Formats of earlier versions are read for ever; a state that does not fit is refused, never guessed.

Imports nothing but `config`. Public: `format`, `segments`, `model_file`, `identity`.
"""
