"""Make the shipped files from the publishers'.

python -m stream_app.producers.datasets.cut PUBLISHED_FOLDER TARGET_FOLDER
"""

import hashlib
import lzma
import sys
from pathlib import Path

from stream_app.producers.datasets import RECIPES
from stream_app.producers.datasets.base import Recipe
from stream_app.terminal import say


def content_of(recipe: Recipe, data_dir: Path) -> bytes:
    """Return the content of the shipped file, made from the publisher's files.

    Raises:
        DataSetError: A publisher's file is missing or has another checksum.
    """
    return recipe.cut([file.read(data_dir) for file in recipe.files])


def packed(content: bytes, packing: tuple[int, int, int]) -> bytes:
    """Return the content as an xz file with a CRC64, compressed with these settings."""
    lc, lp, pb = packing
    settings = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": lc, "lp": lp, "pb": pb}
    return lzma.compress(content, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, filters=[settings])


def main(data_dir: Path, target: Path) -> None:
    """Write every shipped file and print its name, size and both checksums."""
    for recipe in RECIPES.values():
        content = content_of(recipe, data_dir)
        file = packed(content, recipe.packing)
        (target / recipe.shipped.name).write_bytes(file)
        checksums = f"sha256 {hashlib.sha256(file).hexdigest()} content {hashlib.sha256(content).hexdigest()}"
        say(f"{recipe.shipped.name} {len(file)} bytes {checksums}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
