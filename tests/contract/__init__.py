"""One suite over every implementation of the ports."""
