"""The operator's tools: inspect an application, change what its tasks do, and look at models and dead letters.

Each tool reads the topics and the group; those that change something write a recorded act in one transaction. No tool
needs a running worker, and those that write refuse to run beside one.

May import `worker` and everything below it. Public: one module for each command, called by `cli`.
"""
