"""Spans to one tag per piece and back: BIO, BIOES, and any tags that a loaded model has.

Legend: N pieces, C tags. Index C is the borders, before the first piece and after the last.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from glassbert.data.examples import Span
from glassbert.errors import ModelError, UserError
from glassbert.text.alignment import Offsets, characters_of_pieces, pieces_of_characters

Scheme = Literal["bio", "bioes"]
"""bio: B on the first piece of a span, I on others. bioes: also E on the last, and S on a single piece."""

OUTSIDE = "O"
_ROLES = {"bio": "BI", "bioes": "BIES"}
# BMES writes M for inside; BILOU writes L and U for end and single.
_PREFIX = re.compile(r"(?P<role>[BIESMLU])-(?P<label>.+)", re.DOTALL)
_OTHER_LETTERS = {"M": "I", "L": "E", "U": "S"}
_STAND_INS = {"S": "SBIE", "B": "BISE", "E": "EIBS", "I": "IBSE"}
"""For each role the tags that can express it, best first."""


class PieceSpan(NamedTuple):
    """A labelled run of pieces."""

    start: int
    stop: int
    label: str


class _Tag(NamedTuple):
    """The parts of a tag. A name without a role, such as a part of speech, is inside its own label."""

    role: str
    label: str

    @classmethod
    def parse(cls, name: str) -> "_Tag":
        if name == OUTSIDE:
            return cls(OUTSIDE, "")
        match = _PREFIX.fullmatch(name)
        if match is None:
            return cls("I", name)
        return cls(_OTHER_LETTERS.get(match["role"], match["role"]), match["label"])


@dataclass(frozen=True)
class TagSet:
    """The tags of a model, and which of them can follow which."""

    names: tuple[str, ...]
    """In the order of the logits."""

    @classmethod
    def of(cls, labels: Sequence[str], scheme: Scheme = "bio") -> "TagSet":
        """Return the tags for spans of these labels."""
        if scheme not in get_args(Scheme):
            raise UserError(f"scheme={scheme!r}; expected one of {', '.join(get_args(Scheme))}")
        return cls((OUTSIDE, *(f"{role}-{label}" for label in labels for role in _ROLES[scheme])))

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of spans, in the order of the tags."""
        return tuple(dict.fromkeys(tag.label for tag in self._tags if tag.role != OUTSIDE))

    @cached_property
    def continues(self) -> NDArray[np.bool_]:
        """Which tag, by column, continues the span of which, by row, (C + 1, C + 1); never the borders."""
        continues = np.zeros((len(self) + 1, len(self) + 1), dtype=np.bool_)
        for row, before in enumerate(self._tags):
            for column, after in enumerate(self._tags):
                continues[row, column] = (
                    before.role in "BI" and after.role in "IE" and before.label == after.label
                )
        return continues

    @cached_property
    def legal(self) -> NDArray[np.bool_]:
        """Which tag, by column, can follow which, by row, (C + 1, C + 1)."""
        legal = self.continues.copy()
        legal |= np.outer(
            [*(self._can_end(tag) for tag in self._tags), True],
            [*(self._can_begin(tag) for tag in self._tags), True],
        )
        return legal

    @cached_property
    def legal_inside(self) -> NDArray[np.bool_]:
        """Which tag can follow which where no span may begin or end, as inside a word, (C + 1, C + 1)."""
        is_outside = [*(tag.role == OUTSIDE for tag in self._tags), False]
        return self.continues | np.outer(is_outside, is_outside)

    def encode(self, spans: Iterable[PieceSpan], num_pieces: int) -> NDArray[np.int64]:
        """Return the tag of each piece, (N,), for spans with known labels that do not overlap."""
        outside = self._ids.get(_Tag(OUTSIDE, ""), -1)
        tags = np.full(num_pieces, outside, dtype=np.int64)
        for start, stop, label in spans:
            assert (tags[start:stop] == outside).all(), "spans overlap"
            tags[start:stop] = self._id("I", label)
            tags[start] = self._id("B", label)
            if stop - start > 1:
                tags[stop - 1] = self._id("E", label)
            else:
                tags[start] = self._id("S", label)
        if (tags < 0).any():
            raise ModelError(
                f"the model has no tag {OUTSIDE} for what is in no span, as for parts of speech; give spans "
                "that cover the whole text"
            )
        return tags

    def decode(self, tags: NDArray[np.int64]) -> list[PieceSpan]:
        """Return the spans of a legal sequence of tags, (N,)."""
        if len(tags) == 0:
            return []
        is_outside = self._is_outside[tags]
        is_border = is_outside.copy()  # whether a piece does not continue what the piece before it is in
        is_border[0] = True
        is_border[1:] |= ~self.continues[tags[:-1], tags[1:]]
        starts = np.flatnonzero(is_border & ~is_outside)
        borders = np.append(np.flatnonzero(is_border), len(tags))
        stops = borders[np.searchsorted(borders, starts, side="right")]
        return [
            PieceSpan(int(start), int(stop), self._tags[tags[start]].label)
            for start, stop in zip(starts, stops, strict=True)
        ]

    @cached_property
    def _tags(self) -> tuple[_Tag, ...]:
        return tuple(_Tag.parse(name) for name in self.names)

    @cached_property
    def _ids(self) -> dict[_Tag, int]:
        return {tag: index for index, tag in enumerate(self._tags)}

    @cached_property
    def _is_outside(self) -> NDArray[np.bool_]:
        return np.array([tag.role == OUTSIDE for tag in self._tags])

    def _can_begin(self, tag: _Tag) -> bool:
        """Return whether a span can begin with ``tag``: with I only if its label has no B."""
        return tag.role not in "IE" or not self._has("B", tag.label)

    def _can_end(self, tag: _Tag) -> bool:
        """Return whether a span can end with ``tag``: with B only if there is no S, with I only if no E."""
        return tag.role not in "BI" or not self._has({"B": "S", "I": "E"}[tag.role], tag.label)

    def _has(self, role: str, label: str) -> bool:
        return _Tag(role, label) in self._ids

    def _id(self, role: str, label: str) -> int:
        """Return the tag for a role, or for its stand-in in a scheme that lacks it.

        Foreign models may have one tag for a label, such as B alone: every piece of a span gets it.
        """
        stand_in = next(one for one in _STAND_INS[role] if self._has(one, label))
        return self._ids[_Tag(stand_in, label)]


@dataclass(frozen=True, slots=True)
class Placement:
    """How well spans of characters fit the pieces of a text: counts."""

    exact: int = 0
    snapped: int = 0
    """Widened to whole pieces, or narrowed by outer spaces: predictions can only come close."""
    dropped: int = 0
    """Without a piece of their own: they cannot be predicted."""
    inside_word: int = 0
    """Kept ones that begin or end inside a word, or even inside a piece."""

    def __add__(self, other: "Placement") -> "Placement":
        return Placement(
            self.exact + other.exact,
            self.snapped + other.snapped,
            self.dropped + other.dropped,
            self.inside_word + other.inside_word,
        )

    @property
    def total(self) -> int:
        return self.exact + self.snapped + self.dropped

    @property
    def has_whole_words(self) -> bool:
        """Whether every span begins and ends where a word does; False if there is no span."""
        return self.total > 0 and self.inside_word == 0

    def notes(self, noun: str = "spans") -> list[str]:
        """Return remarks on the spans that do not fit pieces; ``noun`` says what they are."""
        notes = []
        if self.snapped:
            notes.append(
                f"{self.snapped} of {self.total} {noun} do not end where pieces do: moved to whole pieces"
            )
        if self.dropped:
            notes.append(f"{self.dropped} of {self.total} {noun} have no piece of their own: left out")
        return notes


def place(
    spans: Sequence[Span], offsets: Offsets, is_word_start: NDArray[np.bool_]
) -> tuple[list[PieceSpan], Placement]:
    """Return the pieces that each span touches; leave out spans without a piece of their own.

    Args:
        is_word_start: Of each piece, whether a word begins with it, (N,).
    """
    runs = pieces_of_characters(offsets, [span.start for span in spans], [span.end for span in spans])
    is_border = [*is_word_start.tolist(), True]
    placed: list[PieceSpan] = []
    exact = snapped = inside_word = 0
    for span, start, stop, is_exact in zip(spans, *(column.tolist() for column in runs), strict=True):
        if start == stop or (placed and start < placed[-1].stop):
            continue
        placed.append(PieceSpan(start, stop, span.label))
        exact += is_exact
        snapped += not is_exact
        first, end = characters_of_pieces(offsets, start, stop)
        inside_word += first < span.start or end > span.end or not (is_border[start] and is_border[stop])
    return placed, Placement(exact, snapped, len(spans) - len(placed), inside_word)
