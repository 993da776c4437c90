"""The worker's loop as seen from outside: health pages, log lines, metrics and trimming."""
