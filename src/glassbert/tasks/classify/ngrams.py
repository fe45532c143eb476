"""Texts as counts of hashed words and n-grams, on arrays: what a bag of words is made of.

Words are runs of letters and digits; each Chinese character is a word. The hashes do not depend on the
machine or on the order of the texts.

Legend: R rows, N characters of a block of texts.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glassbert.data.random import mixed
from glassbert.text.characters import CJK

Hashes = NDArray[np.uint64]
Integers = NDArray[np.int64]

BITS = 22
"""Of a feature: four million of them, so few n-grams of a training file share one."""
CHARACTER_LENGTHS = (2, 3, 4)
WORD_LENGTHS = (1, 2)
_BLOCK_CHARACTERS = 1 << 21
# Odd, so that it has an inverse modulo 2**64.
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)
_IS_CJK = re.compile(f"[{CJK}]")


@dataclass(frozen=True)
class Counts:
    """How often each feature is in each row; sorted by row, then by feature."""

    rows: Integers
    features: Integers
    values: NDArray[np.float32]


def word_counts(texts: Sequence[str]) -> Counts:
    """Count the words of each text, and its pairs of neighbouring words."""
    return _counted(texts, _word_hashes)


def character_counts(texts: Sequence[str]) -> Counts:
    """Count the character n-grams of each text, spaces included."""
    return _counted(texts, _character_hashes)


@dataclass(frozen=True)
class _Block:
    """Concatenated texts, each between two spaces, in lower case."""

    codes: Hashes
    """Code points, (N,)."""
    owners: Integers
    """The row of each character, (N,)."""


_Hashed = Iterator[tuple[Hashes, Integers]]


def _counted(texts: Sequence[str], hashes: Callable[[_Block], _Hashed]) -> Counts:
    keys = []
    for block in _blocks(texts):
        for number, (found, owners) in enumerate(hashes(block)):
            with np.errstate(over="ignore"):
                features = mixed(found + np.uint64(number + 1)) >> np.uint64(64 - BITS)
            keys.append((owners << BITS) | features.astype(np.int64))
    joined = np.concatenate(keys) if keys else np.empty(0, dtype=np.int64)
    pairs, times = np.unique(joined, return_counts=True)
    return Counts(pairs >> BITS, pairs & ((1 << BITS) - 1), times.astype(np.float32))


def _blocks(texts: Sequence[str]) -> Iterator[_Block]:
    plain = [f" {' '.join(text.lower().split())} " for text in texts]
    lengths = np.array([len(text) for text in plain], dtype=np.int64)
    ends = np.cumsum(lengths)
    first = 0
    while first < len(plain):
        reached = int(ends[first] - lengths[first]) + _BLOCK_CHARACTERS
        last = max(first + 1, int(np.searchsorted(ends, reached, side="right")))
        data = "".join(plain[first:last]).encode("utf-32-le", errors="surrogatepass")
        codes = np.frombuffer(data, dtype="<u4").astype(np.uint64)
        yield _Block(codes, np.repeat(np.arange(first, last), lengths[first:last]))
        first = last


def _character_hashes(block: _Block) -> _Hashed:
    """Yield the hashes of all n-grams of each length, with their rows; without the spaces around texts."""
    codes, owners = block.codes, block.owners
    changes = np.flatnonzero(np.diff(owners, prepend=-1, append=-1))
    is_border = np.zeros(len(codes), dtype=np.bool_)
    is_border[changes[:-1]] = is_border[changes[1:] - 1] = True
    for length in CHARACTER_LENGTHS:
        num_starts = max(0, len(codes) - length + 1)
        found = np.zeros(num_starts, dtype=np.uint64)
        with np.errstate(over="ignore"):
            for place in range(length):
                found = found * np.uint64(_BASE) + codes[place : place + num_starts]
        is_whole = (owners[:num_starts] == owners[length - 1 :]) & ~is_border[:num_starts]
        is_whole &= ~is_border[length - 1 :]
        yield found[is_whole], owners[:num_starts][is_whole]


def _word_hashes(block: _Block) -> _Hashed:
    """Yield the hashes of words and of pairs of words, with their rows."""
    starts, ends = _words(block.codes)
    with np.errstate(over="ignore"):
        # A word's hash is a difference of sums over all characters before, moved to the front.
        powers = np.cumprod(np.full(len(block.codes), _BASE, dtype=np.uint64))
        moves = np.cumprod(np.full(len(block.codes), _INVERSE, dtype=np.uint64))
        sums = np.concatenate((np.zeros(1, dtype=np.uint64), np.cumsum(block.codes * powers)))
        found, owners = (sums[ends] - sums[starts]) * moves[starts], block.owners[starts]
        for length in WORD_LENGTHS:
            num_starts = max(0, len(found) - length + 1)
            joined = np.zeros(num_starts, dtype=np.uint64)
            for place in range(length):
                joined = mixed(joined * np.uint64(_BASE) + found[place : place + num_starts])
            is_whole = owners[:num_starts] == owners[length - 1 :]
            yield joined[is_whole], owners[:num_starts][is_whole]


def _words(codes: Hashes) -> tuple[Integers, Integers]:
    """Return where words start and end; texts are between spaces, so no word crosses a border."""
    kinds, inverse = np.unique(codes, return_inverse=True)
    characters = [chr(code) for code in kinds.tolist()]
    is_letter = np.array([one.isalnum() or one == "_" for one in characters], dtype=np.bool_)[inverse]
    is_alone = np.array([bool(_IS_CJK.match(one)) for one in characters], dtype=np.bool_)[inverse]
    is_letter |= is_alone
    continues = np.zeros(len(codes), dtype=np.bool_)
    continues[1:] = is_letter[:-1] & ~is_alone[:-1] & ~is_alone[1:]
    starts = np.flatnonzero(is_letter & ~continues)
    goes_on = np.append(continues[1:], False)
    ends = np.flatnonzero(is_letter & ~(goes_on & np.append(is_letter[1:], False))) + 1
    return starts, ends
