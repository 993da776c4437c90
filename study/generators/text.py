"""Messages of words with a polarity, MOA's `TextGenerator`: a concept is the seed of the polarities."""

import numpy as np
from numpy.typing import NDArray

from stream_app.producers.draws import Draws
from study.generators.stream import Booleans, Doubles, standard_normal

WORDS = 100
"""Features: whether a word occurs (the survey's option)."""

EXPONENT, POLAR_SHARE, MEAN_LENGTH = 1.5, 0.1, 15.0
"""Zipf's exponent of the words, the probability that a word is positive, and that it is negative, and the mean and
the standard deviation of the number of words (MOA's defaults)."""

MAX_LENGTH = 75
"""The most words of a message: the mean and four standard deviations."""

CHUNK = 20_000
"""Messages that are made at once. No result depends on it."""


def polarities(concept: int) -> NDArray[np.int8]:
    """Return 1 for positive words, -1 for negative ones, 0 for the others, int8 `[WORDS]`."""
    drawn = Draws("study", "text", concept, "model").uniforms(0, WORDS)
    return np.select([drawn < POLAR_SHARE, drawn < 2.0 * POLAR_SHARE], [1, -1], 0).astype(np.int8)


def text(concept: int, names: tuple[str | int, ...], count: int) -> tuple[Doubles, Booleans]:
    """Return messages, of class 1 if more of their words are negative than positive; see `stream.Make`.

    A message with as many negative as positive words has no class, so the next message takes its place.
    """
    polarity = polarities(concept)
    features: list[Doubles] = []
    classes: list[Booleans] = []
    start = made = 0
    while made < count:
        words, votes = _messages(names, polarity, start)
        features.append(words[votes != 0])
        classes.append(votes[votes != 0] < 0)
        start, made = start + CHUNK, made + len(classes[-1])
    return np.concatenate(features)[:count], np.concatenate(classes)[:count]


def _messages(
    names: tuple[str | int, ...], polarity: NDArray[np.int8], start: int
) -> tuple[Doubles, NDArray[np.int64]]:
    """Return the features of the messages from `start` on, and how many more words are positive than negative."""
    width = MAX_LENGTH + 2
    table = Draws("study", *names, "features").uniforms(start * width, CHUNK * width).reshape(CHUNK, width)
    normal = standard_normal(table[:, -2], table[:, -1])
    length = np.clip(MEAN_LENGTH * (1.0 + normal), 1, MAX_LENGTH).astype(np.int64)
    frequencies = np.arange(1, WORDS + 1) ** -EXPONENT
    words = np.searchsorted(np.cumsum(frequencies) / frequencies.sum(), table[:, :MAX_LENGTH]).clip(max=WORDS - 1)
    spoken = np.arange(MAX_LENGTH) < length[:, None]
    features = np.zeros((CHUNK, WORDS))
    rows, places = np.nonzero(spoken)
    features[rows, words[rows, places]] = 1.0
    votes: NDArray[np.int64] = np.where(spoken, polarity[words], 0).sum(axis=1, dtype=np.int64)
    return features, votes
