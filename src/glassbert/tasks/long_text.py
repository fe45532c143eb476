"""Texts that are too long for the model: which pieces each input holds."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from glassbert.data.examples import Example
from glassbert.errors import UserError
from glassbert.tasks.settings import LongText
from glassbert.tasks.task import Input, Task, with_specials
from glassbert.text.truncate import kept_spans, share_room
from glassbert.text.windows import Window, windows


class Excerpt(NamedTuple):
    """The pieces of a text, or of a pair of texts, that one input holds."""

    first: Sequence[int]
    second: Sequence[int] | None
    window: Window
    """Of the text that is divided into windows; otherwise all of the first."""
    num_cut: int
    """Pieces that no input holds."""


def text_inputs(
    task: Task[Any, Any], examples: Sequence[Example], targets: Sequence[NDArray[Any]] | None
) -> list[list[Input]]:
    """Return the inputs of examples of one or two texts each, cut or divided as the task's settings say.

    Args:
        targets: The target of each example; None if they are unlabelled.
    """
    firsts = task.tokenizer.ids_of_batch([example.texts[0] for example in examples])
    seconds = iter(task.tokenizer.ids_of_batch([text for example in examples for text in example.texts[1:]]))
    inputs = []
    for number, (example, first) in enumerate(zip(examples, firsts, strict=True)):
        parts = excerpts(
            first,
            next(seconds) if len(example.texts) > 1 else None,
            max_length=task.max_length,
            long_text=task.settings.long_text,
            stride=task.settings.stride,
        )
        inputs.append(
            [
                Input(
                    *with_specials(task.tokenizer, part.first, part.second),
                    example=number,
                    window=part.window,
                    num_cut=part.num_cut,
                    share=1 / len(parts),
                    target=None if targets is None else targets[number],
                )
                for part in parts
            ]
        )
    return inputs


def excerpts(
    first: Sequence[int],
    second: Sequence[int] | None,
    *,
    max_length: int,
    long_text: LongText,
    stride: int | None,
) -> list[Excerpt]:
    """Return the excerpts of a text, or of a pair: one, unless the text is divided into windows.

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
