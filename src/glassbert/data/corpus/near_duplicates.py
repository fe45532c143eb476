"""Documents that are nearly the same, found by MinHash in memory that hardly grows with the corpus.

A document is the set of its shingles, runs of a few words. The smallest of their hashes, under many orders,
make up its signature; two signatures agree in about the share of shingles that the documents have in common.
Only documents that agree in a whole band of the signature are compared. Signatures are kept in a file.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassbert.data.random import GOLDEN, mixed

SIGNATURE_SIZE = 64
MIN_SIMILARITY = 0.8
"""Share of common shingles from which two documents count as nearly the same."""

_SHINGLE_WORDS = 5
_MIN_WORDS = 20
_BAND_SIZE = 4

_Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class NearDuplicates:
    """How many documents are nearly the same as an earlier one."""

    num_compared: int
    """Documents that are long enough."""
    num_found: int
    examples: tuple[tuple[int, int, float], ...]
    """Place of a document, place of an earlier one, and the estimated share that they have in common."""


def signatures(documents: Sequence[Sequence[str]]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Return which documents, given as their words, are long enough, and the signature of each of those."""
    long_ones = [index for index, words in enumerate(documents) if len(words) >= _MIN_WORDS]
    if not long_ones:
        return np.empty(0, np.int64), np.empty((0, SIGNATURE_SIZE), np.uint32)
    shingles = [_shingles(documents[index]) for index in long_ones]
    starts = np.cumsum([0, *map(len, shingles[:-1])])
    hashes = np.concatenate(shingles)
    result = np.empty((len(long_ones), SIGNATURE_SIZE), np.uint32)
    for order, salt in enumerate(np.arange(1, SIGNATURE_SIZE + 1, dtype=np.uint64) * np.uint64(GOLDEN)):
        result[:, order] = np.minimum.reduceat(mixed(hashes + salt), starts) >> np.uint64(32)
    return np.array(long_ones, np.int64), result


class NearDuplicateFinder:
    """Keep the signatures of documents, and compare them at the end."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "signatures"
        self._file = self._path.open("wb")
        self._places: list[NDArray[np.uint64]] = []

    def add(self, places: NDArray[np.uint64], found: NDArray[np.uint32]) -> None:
        """Add documents; their places are any numbers that identify them to the caller."""
        self._places.append(places)
        self._file.write(found.tobytes())

    def finish(self, num_examples: int) -> NearDuplicates:
        """Return how many documents are nearly the same as an earlier one."""
        self._file.close()
        places = np.concatenate([np.empty(0, np.uint64), *self._places])
        if len(places) < 2:
            self._path.unlink()
            return NearDuplicates(len(places), 0, ())
        table = np.memmap(self._path, np.uint32, mode="r").reshape(-1, SIGNATURE_SIZE)
        earlier = np.full(len(places), -1, np.int64)
        similarity = np.zeros(len(places), np.float32)
        for band in range(0, SIGNATURE_SIZE, _BAND_SIZE):
            _compare_band(table, band, earlier, similarity)
        self._path.unlink()
        found = np.flatnonzero(earlier >= 0)
        best = found[np.argsort(-similarity[found], kind="stable")][:num_examples]
        return NearDuplicates(
            num_compared=len(places),
            num_found=len(found),
            examples=tuple(
                (int(places[index]), int(places[earlier[index]]), float(similarity[index])) for index in best
            ),
        )


def _compare_band(
    table: NDArray[np.uint32], band: int, earlier: NDArray[np.int64], similarity: NDArray[np.float32]
) -> None:
    """Compare each document with the first one that has the same hashes in this band."""
    keys = np.zeros(len(table), np.uint64)
    for column in range(band, band + _BAND_SIZE):
        keys = mixed(keys + table[:, column])
    order = np.argsort(keys, kind="stable")
    is_first = np.concatenate(([True], np.diff(keys[order]) != 0))
    firsts = order[np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))]
    candidates = order[~is_first & (earlier[order] < 0)]
    others = firsts[~is_first & (earlier[order] < 0)]
    for start in range(0, len(candidates), 4096):
        mine, theirs = candidates[start : start + 4096], others[start : start + 4096]
        agreement = (table[mine] == table[theirs]).sum(axis=1) / SIGNATURE_SIZE
        is_like = agreement >= MIN_SIMILARITY
        earlier[mine[is_like]] = theirs[is_like]
        similarity[mine[is_like]] = agreement[is_like]


def _shingles(words: Sequence[str]) -> _Hashes:
    """Return a hash for each run of words; Python's own differ from process to process."""
    by_word = {word: zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in set(words)}
    hashes = np.fromiter(map(by_word.__getitem__, words), np.uint64, len(words))
    result = np.zeros(len(hashes) - _SHINGLE_WORDS + 1, np.uint64)
    for offset in range(_SHINGLE_WORDS):
        result = mixed(result + hashes[offset : offset + len(result)])
    return result
