"""Tags to spans, and tokens to the text that they were cut from.

All usual schemes are read by one rule, that of conlleval: B, S and U open a span; I, M, E and L continue
the span before them if it is open and has their label, otherwise they open one; E, L, S and U close it. A
note counts the spans that are legal by this rule only, not by the scheme of their file.

    BIO    every span opens with B                      B-PER I-PER O
    IOB1   B only where a span follows one of its kind  I-PER I-PER O
    BIOES  and BMES (M for I), BILOU (L for E, U for S): the last token, and a span of one, have letters
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from glassbert.data.examples import Span
from glassbert.data.rows.record import Notes, Unusable, label_of, shown
from glassbert.text.characters import is_chinese

_TAG = re.compile(r"O|([BIMELSU])(?:[-_](.+))?")
_CONTINUING, _CLOSING = frozenset("IMEL"), frozenset("ELSU")
_WITHOUT_LABEL = "word"
"""The label of bare letters, as in files for word segmentation."""

# Japanese and Chinese punctuation, kana and full-width forms: written without spaces, as ideographs are.
_UNSPACED = re.compile(r"[\u3000-\u30ff\u31f0-\u31ff\ufe30-\ufe4f\uff00-\uffef]")


def is_tag(cell: str) -> bool:
    """Return whether a cell holds a tag of one of the schemes."""
    return _TAG.fullmatch(cell) is not None


@dataclass
class TagScheme:
    """The scheme of a file, as far as its tags have shown it."""

    letters: set[str] = field(default_factory=set)
    num_opened_by_begin: int = 0
    """Spans that B opens where no span of their label was open."""
    num_opened_inside: int = 0
    """Spans that I, M, E or L opens."""
    num_left_open: int = 0
    """Spans that end without E, L, S or U."""

    def spans(self, tags: Sequence[str]) -> list[Span]:
        """Return the spans of ``tags`` in numbers of tokens, end exclusive."""
        spans: list[Span] = []
        label: str | None = None  # of the span that is open
        start = 0
        for position, tag in enumerate([*tags, "O"]):
            letter, new = _parse(tag)
            continues = letter in _CONTINUING and new == label
            if label is not None and not continues:
                spans.append(Span(start, position, label))
                self.num_left_open += 1
            if letter != "O":
                self.letters.add(letter)
                if not continues:
                    self.num_opened_inside += letter in _CONTINUING
                    self.num_opened_by_begin += letter == "B" and new != label
                    start = position
                if letter in _CLOSING:
                    spans.append(Span(start, position + 1, new))
            label = None if letter == "O" or letter in _CLOSING else new
        return spans

    @property
    def name(self) -> str:
        """The scheme that these tags are written in."""
        if self.letters & _CLOSING:
            return "BILOU" if self.letters & {"L", "U"} else "BMES" if "M" in self.letters else "BIOES"
        return "IOB1" if self.num_opened_inside and not self.num_opened_by_begin else "BIO"

    def log(self, notes: Notes) -> None:
        """Note which scheme it is, and how many spans break its rules."""
        if not self.letters:
            return
        notes.say(f"tags are {self.name}")
        if self.name != "IOB1" and self.num_opened_inside:
            notes.say(
                f"spans that do not open by the rules of {self.name}, read anyway: {self.num_opened_inside:,}"
            )
        if self.letters & _CLOSING and self.num_left_open:
            notes.say(
                f"spans that do not close by the rules of {self.name}, read anyway: {self.num_left_open:,}"
            )


def _parse(tag: str) -> tuple[str, str]:
    """Return the letter of a tag and its label."""
    match = _TAG.fullmatch(tag)
    if match is None:
        raise Unusable(f"tag {shown(tag)}; expected O, or B- I- M- E- L- S- U- and a label")
    return match[1] or "O", label_of(match[2] or _WITHOUT_LABEL)


def tagged_text(
    tokens: Sequence[str], tags: Sequence[str], scheme: TagScheme
) -> tuple[str, tuple[Span, ...]]:
    """Return the text of ``tokens`` and the spans of ``tags`` in its code points."""
    text, places = join_tokens(tokens)
    spans = scheme.spans(tags)
    return text, tuple(Span(places[s.start][0], places[s.end - 1][1], s.label) for s in spans)


def join_tokens(tokens: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """Return the text that ``tokens`` were cut from, as far as it can be known, and the place of each in it.

    A space separates them, except between characters of Chinese and Japanese. A sentence of single characters
    with such characters among them was cut everywhere: no space is added, or "2019" would become "2 0 1 9".
    """
    is_cut_everywhere = all(len(token) == 1 for token in tokens) and any(map(_is_unspaced, tokens))
    parts: list[str] = []
    places, length = [], 0
    for before, token in zip(["", *tokens], tokens, strict=False):
        is_joined = is_cut_everywhere or _is_unspaced(before[-1:]) and _is_unspaced(token[:1])
        if before and not is_joined:
            parts.append(" ")
            length += 1
        parts.append(token)
        places.append((length, length + len(token)))
        length += len(token)
    return "".join(parts), places


def _is_unspaced(character: str) -> bool:
    return bool(character) and (is_chinese(character) or _UNSPACED.match(character) is not None)
