"""The world of a seed: its shape, its worker processes, and everybody else who acts in it."""
