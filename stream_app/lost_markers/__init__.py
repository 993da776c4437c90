"""Repair what Kafka leaves when it loses the markers of a transaction (docs/lost_markers.md).

`hanging_transactions` waits until no transaction is open in a task's partitions, and ends those that hang by `sweeps`.
Then `settle`, the function that a restore calls, decides which transactions were committed, and which of their records
nobody can read; `output_logs` reads the output partitions for it. `repair` publishes these records again.

May import `backends`, `pipeline` and what is below them. Public: `hanging_transactions`, `open_transactions`,
`output_logs`, `repair`, `settle`, `sweeps`.
"""
