"""The progress of tasks as commands read and write it."""
