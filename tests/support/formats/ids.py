"""The id in packed words."""

from stream_app.arrays import Words


def unpack_id(words: Words) -> str:
    """Return the id that `stream_app.arrays.pack_id` has packed into words."""
    return words[1:].tobytes()[: int(words[0])].decode()
