"""The section with the worst mistakes: texts cut to what matters, with right and wrong parts marked."""

from collections.abc import Sequence

from glassbert.metrics.mistakes import Mark, Mistake, Passage
from glassbert.reports.html import definitions, section
from glassbert.reports.markup import Markup, join, tag
from glassbert.reports.wording import ranking, score_text

MAX_MISTAKES = 50
MAX_LENGTH = 480
_PREFIXES = {"right": "", "missed": "missed ", "wrong": "wrong "}


def mistakes_section(mistakes: Sequence[Mistake]) -> Markup:
    """Return the section for at least one mistake; the worst come first."""
    shown = tag("ol", *map(_mistake, mistakes[:MAX_MISTAKES]), class_="mistakes")
    return section("Worst mistakes", shown, intro=ranking(mistakes[0]))


def _mistake(mistake: Mistake) -> Markup:
    texts = [
        tag(
            "p",
            *([tag("b", passage.name), " "] if passage.name else []),
            marked(passage),
            class_="text",
            dir="auto",
        )
        for passage in mistake.passages
    ]
    verdict = [
        ("gold", mistake.gold),
        ("guess", mistake.guess),
        (mistake.score_name, score_text(mistake)),
        ("where", mistake.where),
    ]
    return tag("li", *texts, definitions((name, text) for name, text in verdict if text))


def marked(passage: Passage, max_length: int = MAX_LENGTH) -> Markup:
    """Return the text with its marks; of a long text, the part around the first mistake."""
    start, stop = excerpt(passage, max_length)
    marks = [mark for mark in passage.marks if mark.start < stop and mark.end > start]
    edges = {start, stop, *(edge for mark in marks for edge in (mark.start, mark.end) if start < edge < stop)}
    parts: list[str] = ["\u2026"] if start else []
    ordered = sorted(edges)
    for left, right in zip(ordered, ordered[1:], strict=False):
        here = [mark for mark in marks if mark.start <= left and right <= mark.end]
        parts.append(_part(passage.text[left:right], here))
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
    # An answer has no label: the shape of the mark alone tells right from wrong.
    words = f"{_PREFIXES[mark.kind]}{mark.label}".strip()
    return tag("span", words, class_=f"tag {mark.kind}") if words else Markup()
