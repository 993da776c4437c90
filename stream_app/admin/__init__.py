"""The operator's tools: inspect an application, change what its tasks do, and examine models and dead letters.

Each tool reads the topics and the group, and none needs a running worker. `resume`, `import`, `skip` and `reset` write
an act to progress, `promote` writes a mark to the examples, `recommit` commits the group's offsets, and `dlq replay`
sends dead letters back. `import`, `skip`, `reset` and `recommit` refuse to run while workers run, since these would not
notice the change.

May import `worker` and everything below it. Public: one module for each command, called by `cli`.
"""
