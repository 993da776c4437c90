"""`python -m ops.reference`: write docs/reference.md from the code.

Settings come from the configuration's classes, commands from click, metrics and
log lines from the worker's declarations, exit statuses from the tree of errors, records from the Avro schemas. Each
topic shows records that an `InProcess` application has written. A test fails when the file is older than the code.
"""
