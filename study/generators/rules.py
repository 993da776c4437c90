"""Generators whose classes follow a published rule; class 1 is MOA's second class.

Each function has the form of `stream.Make`; its `labels_of_...` is the rule alone.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import DataSetError
from stream_app.producers.draws import Draws
from study.generators.stream import Booleans, Doubles

PERTURBATION = 0.05
"""Agrawal: a value moves by up to this share of its range after the class is known (MOA's default)."""

SEA_NOISE, ASSET_NOISE = 0.1, 0.05
"""Shares of labels that are flipped (MOA's defaults)."""

SEA_THRESHOLDS = (8.0, 9.0, 7.0, 9.5)

Longs = NDArray[np.int64]

SALARY, COMMISSION, AGE, VALUE, YEARS, LOAN = range(6)
"""Columns of Agrawal's numeric values."""

LOWEST = np.array([20_000.0, 10_000.0, 20.0, 50_000.0, 1.0, 0.0])
HIGHEST = np.array([150_000.0, 75_000.0, 80.0, 1_350_000.0, 30.0, 500_000.0])
"""Ranges of the numeric values."""

LEVELS, MAKES, ZIP_CODES = 5, 20, 9
"""Numbers of values of Agrawal's nominal features: education, make of the car, zip code."""

ASSET_VALUES = (8, 8, 9, 8, 5)
"""Numbers of values of the asset's colour, price, payment, amount and delay of delivery."""

BLACK, BLUE, CYAN, BROWN, RED, _GREEN, _YELLOW, MAGENTA = range(8)
VERY_LOW, LOW, NORMAL, HIGH, VERY_HIGH = range(5)
PAYMENTS = {0: 0, 30: 1, 60: 2, 90: 3}
"""Codes of the days of payment in the rules."""

ASSET_RULES = {
    1: ({1: NORMAL, 3: HIGH}, {0: BROWN, 1: VERY_LOW, 4: HIGH}),
    2: ({1: HIGH, 3: VERY_HIGH, 4: HIGH},),
    3: ({1: VERY_LOW, 2: PAYMENTS[0], 3: HIGH}, {0: RED, 1: LOW, 2: PAYMENTS[30]}),
    4: ({0: BLACK, 2: PAYMENTS[90], 4: VERY_LOW}, {0: MAGENTA, 1: HIGH, 4: VERY_LOW}),
    5: ({0: BLUE, 2: PAYMENTS[60], 3: LOW, 4: NORMAL}, {0: CYAN, 3: LOW, 4: NORMAL}),
}
"""Alternatives of each function, from the column to its value: an offer that fulfils one is interesting (class 0)."""


def _table(names: tuple[str | int, ...], purpose: str, count: int, width: int) -> Doubles:
    """Return uniform numbers on [0, 1), float64 `[count, width]`; row i does not depend on `count`."""
    return Draws("study", *names, purpose).uniforms(0, count * width).reshape(count, width)


def one_hot(codes: Longs, values: int) -> Doubles:
    """Return one feature for each value, float64 `[n, values]`."""
    return np.eye(values)[codes]


def sea(concept: int, names: tuple[str | int, ...], count: int) -> tuple[Doubles, Booleans]:
    """Return three features, of which the sum of two has to exceed a threshold; see `stream.Make`."""
    features = _table(names, "features", count, 3)
    noise = _table(names, "noise", count, 1)[:, 0] < SEA_NOISE
    return features, labels_of_sea(concept, 10.0 * features) ^ noise


def labels_of_sea(concept: int, features: Doubles) -> Booleans:
    """Return the classes of features on [0, 10)."""
    result: Booleans = features[:, 0] + features[:, 1] > SEA_THRESHOLDS[concept - 1]
    return result


def sine(concept: int, names: tuple[str | int, ...], count: int) -> tuple[Doubles, Booleans]:
    """Return two features on both sides of a sine, and two without meaning; see `stream.Make`."""
    features = _table(names, "features", count, 4)
    return features, labels_of_sine(concept, features)


def labels_of_sine(concept: int, features: Doubles) -> Booleans:
    """Return the classes of features on [0, 1): 0 below the curve; function 2 reverses 1, and 4 reverses 3."""
    x, y = features[:, 0], features[:, 1]
    below = y <= np.sin(x) if concept <= 2 else y <= 0.5 + 0.3 * np.sin(3.0 * np.pi * x)
    result: Booleans = below if concept in (2, 4) else ~below
    return result


def mixed(concept: int, names: tuple[str | int, ...], count: int) -> tuple[Doubles, Booleans]:
    """Return two Boolean features and two numeric ones; see `stream.Make`."""
    features = _table(names, "features", count, 4)
    features[:, :2] = features[:, :2] < 0.5
    return features, labels_of_mixed(concept, features)


def labels_of_mixed(concept: int, features: Doubles) -> Booleans:
    """Return the classes: at least two of three conditions hold in class 0; function 2 is the reverse of 1."""
    below = features[:, 3] < 0.5 + 0.3 * np.sin(3.0 * np.pi * features[:, 2])
    two_hold = features[:, 0] + features[:, 1] + below >= 2
    result: Booleans = two_hold if concept == 2 else ~two_hold
    return result


def asset(concept: int, names: tuple[str | int, ...], count: int) -> tuple[Doubles, Booleans]:
    """Return five nominal features as 38; half of the offers are made interesting; see `stream.Make`."""
    table = _table(names, "features", count, len(ASSET_VALUES) + 3)
    codes = (table[:, : len(ASSET_VALUES)] * ASSET_VALUES).astype(np.int64)
    alternatives = ASSET_RULES[concept]
    chosen = (table[:, -3] * len(alternatives)).astype(np.int64)
    interesting = table[:, -2] < 0.5
    for number, alternative in enumerate(alternatives):
        rows = interesting & (chosen == number)
        for column, value in alternative.items():
            codes[rows, column] = value
    features = np.hstack([one_hot(codes[:, column], values) for column, values in enumerate(ASSET_VALUES)])
    return features, labels_of_asset(concept, codes) ^ (table[:, -1] < ASSET_NOISE)


def labels_of_asset(concept: int, codes: Longs) -> Booleans:
    """Return the classes of codes `[n, 5]`: 0 if the offer fulfils an alternative of the function."""
    hold = [
        np.logical_and.reduce([codes[:, column] == value for column, value in alternative.items()])
        for alternative in ASSET_RULES[concept]
    ]
    result: Booleans = ~np.logical_or.reduce(hold)
    return result


def agrawal(concept: int, names: tuple[str | int, ...], count: int) -> tuple[Doubles, Booleans]:
    """Return six numeric and three nominal features of an applicant for a loan; see `stream.Make`."""
    table = _table(names, "features", count, 9)
    level, make, zip_code = (
        (table[:, 6 + k] * size).astype(np.int64) for k, size in enumerate((LEVELS, MAKES, ZIP_CODES))
    )
    numbers = LOWEST + table[:, :6] * (HIGHEST - LOWEST)
    numbers[:, COMMISSION][numbers[:, SALARY] >= 75_000.0] = 0.0
    numbers[:, AGE] = 20 + np.floor(table[:, AGE] * 61)
    numbers[:, VALUE] = (9 - zip_code) * 100_000.0 * (0.5 + table[:, VALUE])
    numbers[:, YEARS] = 1 + np.floor(table[:, YEARS] * 30)
    labels = labels_of_agrawal(concept, numbers, level)
    moves = (2.0 * _table(names, "moves", count, 6) - 1.0) * PERTURBATION * (HIGHEST - LOWEST)
    moved = np.clip(numbers + moves, LOWEST, HIGHEST)
    moved[:, COMMISSION][numbers[:, COMMISSION] == 0.0] = 0.0
    scaled = moved / HIGHEST
    return np.hstack([scaled, one_hot(level, LEVELS), one_hot(make, MAKES), one_hot(zip_code, ZIP_CODES)]), labels


def labels_of_agrawal(concept: int, numbers: Doubles, level: Longs) -> Booleans:
    """Return the classes: 0 is group A.

    Args:
        concept: The function, 1 to 5.
        numbers: float64 `[n, 6]`: salary, commission, age, value of the house, years, loan.
        level: int64 `[n]`, the education, 0 to 4.

    Raises:
        DataSetError: There is no such function.
    """
    salary, age, loan = numbers[:, SALARY] / 1_000.0, numbers[:, AGE], numbers[:, LOAN] / 1_000.0
    young, old = age < 40, age >= 60

    def by_age(below_40: Any, between: Any, from_60: Any) -> NDArray[Any]:  # noqa: ANN401  (numbers or Booleans)
        values: NDArray[Any] = np.where(young, below_40, np.where(old, from_60, between))
        return values

    educated = by_age(level <= 1, (level >= 1) & (level <= 3), level >= 2)
    if concept == 1:
        group_a = young | old
    elif concept == 2:
        group_a = _between(salary, by_age(50, 75, 25), 50)
    elif concept == 3:
        group_a = educated
    elif concept == 4:
        group_a = _between(salary, np.where(educated, by_age(25, 50, 50), by_age(50, 75, 25)), 50)
    elif concept == 5:
        middle = _between(salary, by_age(50, 75, 25), 50)
        group_a = _between(loan, np.where(middle, by_age(100, 200, 300), by_age(200, 300, 100)), 200)
    else:
        raise DataSetError(f"agrawal: there is no function {concept}")
    result: Booleans = ~group_a
    return result


def _between(values: Doubles, low: NDArray[Any], span: float) -> Booleans:
    result: Booleans = (low <= values) & (values <= low + span)
    return result
