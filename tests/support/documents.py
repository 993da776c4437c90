"""The project's documents, and the code blocks in them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def blocks(text: str, language: str) -> list[str]:
    """List the code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
