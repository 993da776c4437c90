"""RELAY: `relay` is the method, the other files are parts of it."""
