"""An explanation as a page of HTML: the texts highlighted, a table of the parts."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from glassbert.glassbox.why.explanation import Explanation, Part
from glassbert.reports.html import definitions, document, section, table
from glassbert.reports.markup import Markup, join, tag

MAX_ROWS = 200
_MEANINGS = {
    "gradients": "Integrated gradients: each value is a share of the difference to a text without content.",
    "occlusion": "Each value is how much the score falls when this part is hidden.",
    "heads": "Each value is how much the score falls when this head is switched off.",
    "layers": "Each value is how much the score falls when this block is skipped.",
    "rollout": "Each value is the share of this token that could reach the head through attention.",
    "lens": "The score that the head would give after each layer, and its likeliest answers.",
    "tokens": "Pieces whose vectors are nearest to that of each token.",
    "rows": "Rows of the file that the model sees as most alike.",
}


def page(explanation: Explanation) -> str:
    """Return the whole page."""
    title = f"Why: {explanation.target}" if explanation.target else "Why"
    return document(title, _header(explanation), _sections(explanation))


def frame(explanation: Explanation) -> str:
    """Return the page inside a frame, for a notebook: its styles and the notebook's stay apart."""
    return tag("iframe", srcdoc=page(explanation), style="width:100%;height:24rem;border:0")


def _header(explanation: Explanation) -> Markup:
    about = [("task", explanation.task)]
    if explanation.target:
        about.append(("explained", explanation.target))
    if explanation.score is not None:
        about.append((explanation.unit, f"{explanation.score:.4f}"))
    if explanation.probability is not None:
        about.append(("probability", f"{explanation.probability:.4f}"))
    known = explanation.completeness
    if known:
        about.append(("baseline", f"{known.baseline}, {known.baseline_score:.4f}"))
        about.append(("steps", f"{known.steps}"))
        about.append(("completeness gap", f"{known.gap:.2%}"))
    return tag("header", tag("h1", f"Why: {explanation.method}"), definitions(about))


def _sections(explanation: Explanation) -> Iterator[Markup]:
    notes = [explanation.refusal] if explanation.refusal else []
    notes += explanation.notes
    if notes:
        yield section("Keep in mind", tag("ul", *(tag("li", note) for note in notes)))
    if explanation.refusal:
        return
    if any(part.place for part in explanation.parts) and explanation.method != "tokens":
        intro = "Blue supports the answer, orange and dashed contradicts it; hover for the value."
        yield section("Text", *_texts(explanation), intro=intro)
    yield section("Parts", _table(explanation), intro=_MEANINGS[explanation.method])


def _texts(explanation: Explanation) -> Iterator[Markup]:
    largest = max(abs(part.value) for part in explanation.parts)
    for number, text in enumerate(explanation.texts):
        parts = [part for part in explanation.parts if part.place and part.place.text == number]
        yield tag("p", highlighted(text, parts, largest), class_="text", dir="auto")


def highlighted(text: str, parts: Sequence[Part], largest: float) -> Markup:
    """Return a text with its parts coloured by their values; pieces that share a character add up there."""
    places = [(part.place, part.value) for part in parts if part.place]
    edges = sorted({0, len(text), *(edge for place, _ in places for edge in (place.start, place.end))})
    found = []
    for start, end in pairwise(edges):
        values = [value for place, value in places if place.start <= start and end <= place.end]
        words = text[start:end]
        if not values:
            found.append(words)
            continue
        value = sum(values)
        strength = min(1.0, abs(value) / largest) if largest else 0.0
        kind = "against" if value < 0 else "for"
        found.append(tag("span", words, class_=kind, style=f"--s:{strength:.3f}", title=f"{value:.4f}"))
    return join(found)


def _table(explanation: Explanation) -> Markup:
    has_about = any(part.note or part.candidates for part in explanation.parts)
    parts = explanation.listed(MAX_ROWS)
    rows = [(part.name, f"{part.value:.4f}", *([part.about] if has_about else [])) for part in parts]
    names = ("part", explanation.unit, *(["about"] if has_about else []))
    return table("Parts", names, rows, texts=["about"])
