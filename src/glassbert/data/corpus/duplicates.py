"""Repeated lines: dropped from a stream, or counted exactly in bounded memory."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from glassbert.text.documents import Part

MIN_CHARACTERS = 16
"""A shorter line, such as a heading or a thank-you, may repeat in good text."""

_NUM_BUCKETS = 64
_RECORD = np.dtype([("hash", "<u8"), ("place", "<u8")])


def text_hash(text: str) -> int:
    """Return a 64-bit hash of ``text``; even among a billion lines, collisions are very rare."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


class SeenHashes:
    """A set of hashes that takes little more than their 8 bytes each."""

    def __init__(self) -> None:
        self._sorted: list[NDArray[np.uint64]] = []

    def add(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Add ``hashes`` and return which of them are new, the first occurrence of each."""
        unique, first = np.unique(hashes, return_index=True)
        is_new = np.ones(len(unique), dtype=np.bool_)
        for seen in self._sorted:
            at = np.minimum(np.searchsorted(seen, unique), len(seen) - 1)
            is_new &= seen[at] != unique
        if is_new.any():
            self._sorted.append(unique[is_new])
        # Few lists, each at least twice as long as the next: a hash is moved a few times in all.
        while len(self._sorted) > 1 and len(self._sorted[-2]) < 2 * len(self._sorted[-1]):
            merged = np.concatenate((self._sorted.pop(), self._sorted.pop()))
            merged.sort(kind="stable")
            self._sorted.append(merged)
        result = np.zeros(len(hashes), dtype=np.bool_)
        result[first[is_new]] = True
        return result


class DuplicateFilter:
    """Blank out lines that repeat an earlier one, anywhere in the corpus."""

    def __init__(self) -> None:
        self.num_dropped = 0
        self._seen = SeenHashes()

    def __call__(self, parts: Sequence[Part]) -> tuple[Part, ...]:
        """Return ``parts`` with each repeated line replaced by a blank one."""
        places, hashes = [], []
        for part_index, part in enumerate(parts):
            for line_index, line in enumerate(part.lines):
                text = line.strip()
                if len(text) >= MIN_CHARACTERS:
                    places.append((part_index, line_index))
                    hashes.append(text_hash(text))
        is_new = self._seen.add(np.array(hashes, dtype=np.uint64))
        dropped = [place for place, new in zip(places, is_new, strict=True) if not new]
        self.num_dropped += len(dropped)
        lines = {index: list(parts[index].lines) for index, _ in dropped}
        for part_index, line_index in dropped:
            lines[part_index][line_index] = ""
        return tuple(
            part._replace(lines=tuple(lines[index])) if index in lines else part
            for index, part in enumerate(parts)
        )


@dataclass(frozen=True)
class Repetition:
    """A text that occurs more than once."""

    count: int
    first_place: int
    second_place: int


@dataclass(frozen=True)
class Repetitions:
    """How many of the texts were repetitions."""

    num_total: int
    num_repeated: int
    """Occurrences after the first."""
    most_frequent: tuple[Repetition, ...]


class RepetitionCounter:
    """Count repeated texts exactly: their hashes are kept in files, which are sorted one at a time."""

    def __init__(self, folder: Path) -> None:
        self._paths = [folder / f"hashes-{bucket:02d}" for bucket in range(_NUM_BUCKETS)]
        self._files: list[BinaryIO] = [path.open("wb") for path in self._paths]

    def add(self, hashes: NDArray[np.uint64], places: NDArray[np.uint64]) -> None:
        """Count texts; their places are any numbers that identify them to the caller."""
        records = np.empty(len(hashes), dtype=_RECORD)
        records["hash"], records["place"] = hashes, places
        buckets = (hashes % np.uint64(_NUM_BUCKETS)).astype(np.int64)
        order = np.argsort(buckets, kind="stable")
        borders = np.searchsorted(buckets[order], np.arange(_NUM_BUCKETS + 1))
        for file, start, stop in zip(self._files, borders, borders[1:], strict=False):
            file.write(records[order[start:stop]].tobytes())

    def finish(self, num_most_frequent: int) -> Repetitions:
        """Return the counts and the most frequent texts; at a tie, the first in the corpus."""
        for file in self._files:
            file.close()
        num_total = num_repeated = 0
        frequent: list[Repetition] = []
        for path in self._paths:
            records = np.fromfile(path, dtype=_RECORD)
            path.unlink()
            records.sort(order=("hash", "place"))
            starts = np.flatnonzero(np.diff(records["hash"], prepend=~records["hash"][:1]))
            counts = np.diff(starts, append=len(records))
            num_total += len(records)
            num_repeated += len(records) - len(starts)
            frequent += _most_frequent(records["place"], starts, counts, num_most_frequent)
        frequent.sort(key=lambda repetition: (-repetition.count, repetition.first_place))
        return Repetitions(num_total, num_repeated, tuple(frequent[:num_most_frequent]))


def _most_frequent(
    places: NDArray[np.uint64], starts: NDArray[np.int64], counts: NDArray[np.int64], num_wanted: int
) -> Iterable[Repetition]:
    for index in np.lexsort((places[starts], -counts))[:num_wanted]:
        if counts[index] > 1:
            start = int(starts[index])
            yield Repetition(int(counts[index]), int(places[start]), int(places[start + 1]))
