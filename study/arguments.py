"""Arguments that several command lines of the study have."""

from argparse import ArgumentTypeError


def count(text: str) -> int:
    """Return a number of things from its text.

    Raises:
        ArgumentTypeError: It is no number, or below 1.
    """
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text} is no number from 1 on")
    return int(text)
