"""Choose the pieces to keep of a text that is too long. Pure arithmetic on lengths, no text."""

from typing import Literal

Keep = Literal["head", "tail", "head+tail"]
Range = tuple[int, int]
"""A run of pieces: the first one, and the one after the last."""

# The published split, measured for the 510 pieces that [CLS] and [SEP] leave of 512; other rooms are scaled.
_PUBLISHED_ROOM = 510
_PUBLISHED_LONG = 800
_PUBLISHED_HEAD = 128
_PUBLISHED_HEAD_OF_LONG = 256


def share_room(num_a: int, num_b: int, room: int) -> tuple[int, int]:
    """Return how many pieces of each text fit if pieces are removed one by one from the longer text.

    If both are cut and ``room`` is odd, the odd piece goes to the longer text, and to the second text if both
    are equally long.
    """
    if num_a + num_b <= room:
        return num_a, num_b
    shorter = min(num_a, num_b, room // 2)
    longer = room - shorter
    return (longer, shorter) if num_a > num_b else (shorter, longer)


def kept_spans(num_pieces: int, room: int, keep: Keep) -> list[Range]:
    """Return the runs of pieces, in order, that together fill ``room``."""
    if num_pieces <= room:
        return [(0, num_pieces)]
    num_head = {"head": room, "tail": 0, "head+tail": _head_of_both(num_pieces, room)}[keep]
    num_tail = room - num_head
    return [(0, num_head), (num_pieces - num_tail, num_pieces)]


def cut_spans(num_pieces: int, kept: list[Range]) -> list[Range]:
    """Return the runs of pieces that ``kept`` leaves out."""
    borders = [0, *(border for span in kept for border in span), num_pieces]
    return [(start, stop) for start, stop in zip(borders[::2], borders[1::2], strict=True) if start < stop]


def _head_of_both(num_pieces: int, room: int) -> int:
    is_long = num_pieces * _PUBLISHED_ROOM > _PUBLISHED_LONG * room
    return room * (_PUBLISHED_HEAD_OF_LONG if is_long else _PUBLISHED_HEAD) // _PUBLISHED_ROOM
