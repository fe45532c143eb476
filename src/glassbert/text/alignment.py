"""Map runs of characters to the pieces that cover them, and back.

A run can end inside a piece: `Mac` of `macbook`, where that is one piece or an unknown word. It is snapped
outward to whole pieces. Or it can include characters that have no piece, such as spaces: these are left out.
A run of such characters only has no pieces at all.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Offsets = NDArray[np.int64]
"""First character of each piece and the character after its last, (N, 2); both columns never fall."""


class PieceRuns(NamedTuple):
    """Runs of pieces, one per run of characters."""

    start: NDArray[np.int64]
    """First piece."""
    stop: NDArray[np.int64]
    """The piece after the last; equal to `start` where there is no piece."""
    is_exact: NDArray[np.bool_]
    """Whether the pieces cover exactly these characters."""


def as_offsets(offsets: Sequence[tuple[int, int]]) -> Offsets:
    """Return the offsets that a tokenizer gives as an array."""
    return np.array(offsets, dtype=np.int64).reshape(-1, 2)


def pieces_of_characters(offsets: Offsets, starts: Sequence[int], ends: Sequence[int]) -> PieceRuns:
    """Return the pieces of each run of characters, by binary search."""
    firsts, lasts = np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)
    # Pieces can share a character, as when one letter becomes two: then all of them belong to the run.
    start = np.searchsorted(offsets[:, 1], firsts, side="right")
    stop = np.maximum(np.searchsorted(offsets[:, 0], lasts, side="left"), start)
    is_exact = start < stop
    is_exact[is_exact] = (offsets[start[is_exact], 0] == firsts[is_exact]) & (
        offsets[stop[is_exact] - 1, 1] == lasts[is_exact]
    )
    return PieceRuns(start, stop, is_exact)


def characters_of_pieces(offsets: Offsets, start: int, stop: int) -> tuple[int, int]:
    """Return the characters that a run of pieces covers: the first, and the one after the last."""
    return int(offsets[start, 0]), int(offsets[stop - 1, 1])


def shares_character(offsets: Offsets) -> NDArray[np.bool_]:
    """Return for each piece whether it shares a character with the piece before it, (N,).

    No run of characters has a border there: the pieces are parts of one character, such as a Korean syllable.
    """
    shares = np.zeros(len(offsets), dtype=np.bool_)
    shares[1:] = offsets[1:, 0] < offsets[:-1, 1]
    return shares
