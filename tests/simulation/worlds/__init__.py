"""The world of a seed: its shape, its worker processes, and all other actors."""
