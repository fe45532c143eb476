"""Windows over a text that is too long for a model. Pure arithmetic on numbers of pieces, no text."""

from collections.abc import Sequence
from typing import NamedTuple

from glassbert.errors import UserError


class Window(NamedTuple):
    """A run of a text's pieces."""

    start: int
    """First piece."""
    stop: int
    """The piece after the last."""

    @property
    def num_pieces(self) -> int:
        return self.stop - self.start


def windows(num_pieces: int, room: int, stride: int) -> list[Window]:
    """Return windows that together hold every piece; a text that fits has one window, even an empty text.

    A longer text has as many windows as the stride requires, all of the same length and none longer than
    necessary: neighbours share at least ``room - stride`` pieces, and a text that is barely too long is not
    read twice.

    Args:
        room: Pieces that a window holds at most.
        stride: Pieces from the start of one full window to the start of the next.
    """
    if num_pieces <= room:
        return [Window(0, num_pieces)]
    if room < 1:
        raise UserError(f"no room for {num_pieces} pieces beside the specials; raise the length limit")
    if not 1 <= stride <= room:
        raise UserError(
            f"stride={stride} with room for {room} pieces; expected 1 to {room}, or pieces would be left out"
        )
    shared = room - stride
    number = 1 + -(-(num_pieces - room) // stride)
    length = shared + -(-(num_pieces - shared) // number)
    last_start = num_pieces - length
    starts = (index * last_start // (number - 1) for index in range(number))
    return [Window(start, start + length) for start in starts]


def max_context(overlapping: Sequence[Window]) -> list[Window]:
    """Return for each window the pieces for which it is best: no other has more text on both sides of them.

    The results cover all pieces without gap or overlap. Since all windows have the same length, the best is
    the one whose middle is nearest: neighbours divide what they share.
    """
    # Of an odd number of shared pieces, the one in the middle goes to the earlier window.
    borders = [
        (earlier.stop + later.start + 1) // 2
        for earlier, later in zip(overlapping, overlapping[1:], strict=False)
    ]
    return [
        Window(start, stop)
        for start, stop in zip(
            [overlapping[0].start, *borders], [*borders, overlapping[-1].stop], strict=True
        )
    ]
