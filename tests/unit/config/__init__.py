"""The settings: what is accepted, what is refused, and the memory that they allow."""
