"""Texts of mistakes: cut to what matters, with what was found, missed and wrongly guessed marked in them."""

from glassbert.evaluation.result import Mark, Passage
from glassbert.reports.markup import Markup, join, tag

MAX_LENGTH = 480
_WORDS = {"right": "", "missed": "missed ", "wrong": "wrong "}


def marked(passage: Passage, max_length: int = MAX_LENGTH) -> Markup:
    """Return the text with its marks; of a long text the part around the first mistake."""
    start, stop = excerpt(passage, max_length)
    marks = [mark for mark in passage.marks if mark.start < stop and mark.end > start]
    edges = {start, stop, *(edge for mark in marks for edge in (mark.start, mark.end) if start < edge < stop)}
    parts: list[str] = ["\u2026"] if start else []
    ordered = sorted(edges)
    for left, right in zip(ordered, ordered[1:], strict=False):
        parts.append(
            _part(passage.text[left:right], [m for m in marks if m.start <= left and right <= m.end])
        )
        parts += [_label(mark) for mark in marks if min(mark.end, stop) == right]
    return join([*parts, "\u2026"] if stop < len(passage.text) else parts)


def excerpt(passage: Passage, max_length: int) -> tuple[int, int]:
    """Return where the part to show starts and stops."""
    length = len(passage.text)
    if length <= max_length:
        return 0, length
    places = [mark.start for mark in passage.marks if mark.kind != "right"] or [
        mark.start for mark in passage.marks
    ]
    first = min(places, default=0)
    start = min(max(0, first - max_length // 3), length - max_length)
    return start, start + max_length


def _part(text: str, marks: list[Mark]) -> str:
    if not marks:
        return text
    return tag("mark", text, class_=" ".join(sorted({mark.kind for mark in marks})))


def _label(mark: Mark) -> Markup:
    # An answer has no label: the mark alone tells right from wrong by its shape.
    words = f"{_WORDS[mark.kind]}{mark.label}".strip()
    return tag("span", words, class_=f"tag {mark.kind}") if words else Markup()
