"""What a sender may say: a value that an input topic cannot carry as it stands is an error, never converted.

So a label of 0.98 is not learned as class 0, and 1e39 does not become infinity. numpy's numbers and booleans count as
Python's; text never counts as a number.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.records import MAX_ID_BYTES, MAX_STREAM_BYTES, Example, Label, Mark, Value

_MAX_REVISION = 2**31 - 1


def checked(record: Example | Label | Mark) -> Example | Label | Mark:
    """Return the record with Python's own numbers.

    Raises:
        ValueError: It has a value that its topic cannot carry; the message names the value.
    """
    _require_text(record.stream, "a stream's name", MAX_STREAM_BYTES)
    if isinstance(record, Mark):
        time_ms = None if record.time_ms is None else whole(record.time_ms, "the time of a mark", 2**63 - 1)
        threshold = None if record.threshold is None else _number(record.threshold, "the threshold of a mark")
        return replace(record, time_ms=time_ms, threshold=threshold)
    _require_text(record.id, "an id", MAX_ID_BYTES)
    if isinstance(record, Label):
        label = whole(record.label, f"the label of {record.id!r}", 1)
        return replace(record, label=label, revision=whole(record.revision, "a revision", _MAX_REVISION))
    what = f"example {record.id!r}"
    if record.values is None:
        return replace(record, features=_features_of(record.features, what).tolist())
    if len(record.features):
        raise ValueError(f"{what} has features and values by column; it must have either")
    return replace(record, values={name: _value_of(name, value, what) for name, value in record.values.items()})


def _value_of(name: object, value: object, what: str) -> Value:
    """Return the value of a column with Python's own types.

    Raises:
        ValueError: It is of another type, not finite, or a whole number of more than 64 bits.
    """
    if not isinstance(name, str):
        raise ValueError(f"{what}: the name of a column is text, not {name!r}")  # noqa: TRY004  (as above)
    given: Any = value
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Integral) and -(2**63) <= given < 2**63:
        return int(given)
    if isinstance(value, Real) and not isinstance(value, Integral) and np.isfinite(given):
        return float(given)
    allowed = "a number, text, a boolean, or None if it is missing"
    raise ValueError(f"{what}: column {name!r} is {value!r}; it must be {allowed}")


def whole(value: object, what: str, largest: int) -> int:
    """Return a whole number from 0 to the largest.

    Raises:
        ValueError: It is another value, or no number.
    """
    number: Any = value
    if isinstance(value, Real | np.bool_) and 0 <= number <= largest and int(number) == number:
        return int(number)
    allowed = "0 or 1" if largest == 1 else f"a whole number up to {largest}"
    raise ValueError(f"{what} is {value!r}; it must be {allowed}")


def _features_of(values: Sequence[float] | NDArray[np.generic], what: str) -> NDArray[np.float32]:
    """Return the features of one example, float32 `[d]`.

    Raises:
        ValueError: There is none, or one is no number, not finite, or too large for float32.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        given = values
    elif isinstance(values, Iterable) and not isinstance(values, str | bytes):
        given = np.array([_number(value, f"{what}: feature {number}") for number, value in enumerate(values)])
    else:
        given = np.zeros(0)
    if given.ndim != 1 or len(given) == 0:
        raise ValueError(f"{what}: features are a sequence of numbers, not {values!r}")
    with np.errstate(over="ignore"):
        features = given.astype(np.float32)
    require_finite(features[None], given[None], what)
    return features


def _number(value: object, what: str) -> float:
    if not isinstance(value, Real | np.bool_):
        raise ValueError(f"{what} is {value!r}, which is not a number")  # noqa: TRY004  (as in `_require_text`)
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{what} is {value!r}; it must be at most 3.4e38") from None


def require_finite(features: NDArray[np.float32], given: NDArray[np.generic], what: str) -> None:
    """Refuse features that are not finite as float32.

    Args:
        features: float32 `[n, d]`.
        given: The same, as the sender gave them.
        what: What errors call them.

    Raises:
        ValueError: A feature is not finite.
    """
    if not np.isfinite(features).all():
        row, column = np.argwhere(~np.isfinite(features))[0].tolist()
        place = f"{what}: " if len(features) == 1 else f"{what}, row {row}: "
        raise ValueError(f"{place}feature {column} is {given[row, column]}; it must be finite and at most 3.4e38")


def _require_text(value: object, what: str, largest: int) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{what} is text, not {value!r}")  # noqa: TRY004  (all that a sender may not say is one kind)
    if not 1 <= len(value.encode()) <= largest:
        raise ValueError(f"{what} has 1 to {largest} bytes, not {len(value.encode())}: {value!r}")
