"""Texts that are too long for the model: which pieces each input holds. Ids in, ids out."""

from collections.abc import Sequence
from typing import NamedTuple

from glassbert.errors import UserError
from glassbert.tasks.settings import LongText
from glassbert.text.truncate import kept_spans, share_room
from glassbert.text.windows import Window, windows


class Excerpt(NamedTuple):
    """What one input holds of a text, or of a pair of texts."""

    first: Sequence[int]
    second: Sequence[int] | None
    window: Window
    """Of the text that is divided into windows; else the whole of the first."""
    num_cut: int
    """Pieces that no input holds."""


def excerpts(
    first: Sequence[int],
    second: Sequence[int] | None,
    *,
    max_length: int,
    long_text: LongText,
    stride: int | None,
) -> list[Excerpt]:
    """Return what the inputs of a text, or of a pair, hold: one excerpt unless windows are asked for.

    Args:
        max_length: Tokens of an input, specials included.
    """
    num_specials = 2 if second is None else 3
    room = max_length - num_specials
    if room < num_specials - 1:
        raise UserError(
            f"max_length={max_length} leaves no room for text beside {num_specials} specials; raise it"
        )
    num_pieces = len(first) + (0 if second is None else len(second))
    if num_pieces <= room:
        return [Excerpt(first, second, Window(0, len(first)), 0)]
    if long_text != "window":
        kept, kept_second = _kept(first, second, room, long_text)
        num_kept = len(kept) + (0 if kept_second is None else len(kept_second))
        return [Excerpt(kept, kept_second, Window(0, len(first)), num_pieces - num_kept)]
    if second is None:
        return [
            Excerpt(first[start:stop], None, Window(start, stop), 0)
            for start, stop in windows(len(first), room, stride or max(1, room // 2))
        ]
    return _windows_of_pair(first, second, room, stride)


def _kept(
    first: Sequence[int], second: Sequence[int] | None, room: int, long_text: LongText
) -> tuple[Sequence[int], Sequence[int] | None]:
    assert long_text != "window"
    rooms = share_room(len(first), 0 if second is None else len(second), room)
    both = [
        None
        if ids is None
        else [id_ for start, stop in kept_spans(len(ids), own, long_text) for id_ in ids[start:stop]]
        for ids, own in zip((first, second), rooms, strict=True)
    ]
    assert both[0] is not None
    return both[0], both[1]


def _windows_of_pair(
    first: Sequence[int], second: Sequence[int], room: int, stride: int | None
) -> list[Excerpt]:
    """Show the shorter text, or as much of it as half the room holds, beside each window of the longer."""
    is_first_longer = len(first) > len(second)
    longer, shorter = (first, second) if is_first_longer else (second, first)
    beside = shorter[: room // 2]
    own_room = room - len(beside)
    found = []
    for window in windows(len(longer), own_room, min(own_room, stride or max(1, own_room // 2))):
        part = longer[window.start : window.stop]
        pair = (part, beside) if is_first_longer else (beside, part)
        found.append(Excerpt(*pair, window, len(shorter) - len(beside)))
    return found
