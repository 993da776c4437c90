"""The id in packed words."""

from stream_app.records import Words


def unpack_id(words: Words) -> str:
    """Return the id that `stream_app.records.pack_id` has packed into words."""
    return words[1:].tobytes()[: int(words[0])].decode()
