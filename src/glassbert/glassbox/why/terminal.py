"""An explanation as text with bars, for a terminal or a pipe."""

from collections.abc import Iterator

from glassbert.glassbox.why.explanation import Explanation, Part
from glassbert.reports.axes import shortened, width_of
from glassbert.reports.markup import printable

MAX_PARTS_SHOWN = 20
NAME_WIDTH, BAR_WIDTH = 24, 20


def render(explanation: Explanation, top: int = MAX_PARTS_SHOWN, *, has_refusal: bool = True) -> str:
    """Return the explanation as lines: what is explained, the parts with bars, what to keep in mind.

    Args:
        has_refusal: Whether to include why there is no conclusion; a verb prints that at its end.
    """
    lines = [*_header(explanation)]
    if not explanation.refusal:
        lines += _bars(explanation, top)
    elif has_refusal:
        lines.append(explanation.refusal)
    return "\n".join([*lines, *(f"note: {_one_line(note)}" for note in explanation.notes)])


def _header(explanation: Explanation) -> Iterator[str]:
    if explanation.target:
        score = f", {explanation.unit} {explanation.score:.3f}" if explanation.score is not None else ""
        chance = f", probability {explanation.probability:.4f}" if explanation.probability is not None else ""
        yield f"{explanation.task}: {_one_line(explanation.target)}{score}{chance}"
    known = explanation.completeness
    if known:
        yield (
            f"baseline {known.baseline}: {known.baseline_score:.3f}; {known.steps} steps; "
            f"completeness gap {known.gap:.2%}"
        )


def _bars(explanation: Explanation, top: int) -> Iterator[str]:
    parts = explanation.listed(top)
    largest = max((abs(part.value) for part in parts), default=0.0)
    for part in parts:
        yield _bar(part, largest)
    if len(explanation.parts) > len(parts):
        yield f"and {len(explanation.parts) - len(parts):,} more"


def _bar(part: Part, largest: float) -> str:
    name = shortened(_one_line(part.name), NAME_WIDTH)
    size = round(abs(part.value) / largest * BAR_WIDTH) if largest else 0
    bar = ("\u2588" if part.value > 0 else "\u2591") * size
    line = f"{part.value:>9.4f}  {name}{' ' * (NAME_WIDTH - width_of(name))}  {bar}"
    room = " " * (BAR_WIDTH - size + 2)
    return f"{line}{room}{_one_line(part.about)}".rstrip()


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))
