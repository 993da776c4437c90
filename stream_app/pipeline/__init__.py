"""One task: the pure function from two ranges of input records to output records and a new state.

`task.Task` carries out the steps in the order of the picture in docs/architecture.md: decode, merge, prepare, join,
learn, evaluate, encode. The same inputs, settings and state give the same bytes for batches of any size.

May import `learners`, `join`, `snapshot`, `serialization`, `jit` and `config`. Public: `batch`, `degradation`,
`drift`, `leftovers`, `merge`, `output_parts`, `outputs`, `preparation.preparation`, `prequential`, `steps.routed`,
`stream`, `stream_state`, `task`, `transaction_bounds`, `watched.feature_sizes`, `watched.label_flow`,
`watched.table_use`.
"""
