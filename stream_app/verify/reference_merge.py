"""The order in which the records of both inputs count, as `areba verify` expects it: one record after the other."""

from collections.abc import Iterable, Iterator

from stream_app.verify.reference_state import Record


def merge(examples: Iterable[Record], labels: Iterable[Record]) -> Iterator[Record]:
    """Yield the records of one range in the order in which they count.

    Of the two next records, the record with the smaller timestamp comes first, the example on a tie. Each side keeps
    its order, regardless of its timestamps.
    """
    sides = iter(examples), iter(labels)
    example, label = next(sides[0], None), next(sides[1], None)
    while example is not None or label is not None:
        if label is None or (example is not None and example.time_ms <= label.time_ms):
            assert example is not None  # noqa: S101  (for the type checker)
            yield example
            example = next(sides[0], None)
        else:
            yield label
            label = next(sides[1], None)
