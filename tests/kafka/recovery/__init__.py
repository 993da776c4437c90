"""Workers that are killed, restarted, changed and upgraded."""
