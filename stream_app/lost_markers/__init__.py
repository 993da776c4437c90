"""Repair what Kafka leaves when it loses the markers of a transaction (docs/lost_markers.md).

`hanging_transactions` waits until no transaction is open in a task's partitions, and ends those that hang. Then
`settle`, the function that a restore calls, decides which transactions were committed, and which of their records
nobody can read; `output_logs` reads the output partitions for it.

May import `backends`, `pipeline` and what is below them. Public: `hanging_transactions`, `output_logs`, `settle`.
"""
