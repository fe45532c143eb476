"""Randomness without state: every number is a hash of its purpose.

A number depends on its keys alone: not on the process, the order of calls, or an interruption. The
generators of numpy are not used: their streams may change between releases, and with them a run.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Keys = int | NDArray[np.int64]

_MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
"""The increment of SplitMix64."""


class Draw(IntEnum):
    """The purpose of a number; the first key, so that no two uses share numbers. Never renumber these."""

    IS_SHORT = 1
    SHORT_LENGTH = 2
    CUT = 3
    FLIP = 4
    OTHER_DOCUMENT = 5
    OTHER_START = 6
    FRONT_OF_A = 7
    FRONT_OF_B = 8
    ORDER = 9
    CHOICE = 10
    FATE = 11
    REPLACEMENT = 12
    SAMPLED_TOKEN = 13
    BATCH_ORDER = 14
    HELD_OUT = 15
    DIRECTIONS = 16
    SENTENCE = 17


def bits(seed: int, draw: Draw, *keys: Keys) -> NDArray[np.uint64]:
    """Return 64 random bits for each set of ``keys``, which are broadcast; SplitMix64, once per key."""
    state = np.asarray(seed & _MASK, dtype=np.uint64)
    with np.errstate(over="ignore"):  # the arithmetic is modulo 2**64
        for key in (int(draw), *keys):
            steps = np.asarray(key).astype(np.uint64) + np.uint64(1)
            state = mixed(state + steps * np.uint64(GOLDEN))
    return state


def uniform(seed: int, draw: Draw, *keys: Keys) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each set of ``keys``."""
    return (bits(seed, draw, *keys) >> np.uint64(11)) * np.float64(2.0**-53)


def below(limit: Keys, seed: int, draw: Draw, *keys: Keys) -> NDArray[np.int64]:
    """Return a whole number from 0 to before ``limit`` for each set of ``keys``; 0 if the limit is 0."""
    return (uniform(seed, draw, *keys) * limit).astype(np.int64)


def heads(num_tosses: NDArray[np.int64], seed: int, draw: Draw, *keys: Keys) -> NDArray[np.int64]:
    """Return how many of ``num_tosses`` fair coins show heads: exactly binomial, 64 coins per hash."""
    counts = np.zeros(len(num_tosses), dtype=np.int64)
    for word in range(-(-int(num_tosses.max(initial=0)) // 64)):
        tosses = np.clip(num_tosses - 64 * word, 0, 64)
        coins = bits(seed, draw, *keys, word)
        kept = coins >> ((64 - tosses) % 64).astype(np.uint64)
        counts += np.where(tosses > 0, np.bitwise_count(kept), 0)  # a shift by 64 is not defined
    return counts


def permutation(length: int, seed: int, draw: Draw, *keys: int) -> NDArray[np.int64]:
    """Return the numbers from 0 to before ``length`` in random order."""
    return np.argsort(bits(seed, draw, *keys, np.arange(length)), kind="stable")


def mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return ``state`` with every bit depending on every other: the finaliser of SplitMix64."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
