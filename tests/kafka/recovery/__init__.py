"""Workers that are killed, restarted and changed."""
