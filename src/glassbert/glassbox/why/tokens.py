"""The tokens that a model read, where they are in the texts, and the words that they make up."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassbert.errors import UserError
from glassbert.glassbox.why.explanation import Place
from glassbert.inference.questions import Unit
from glassbert.sentence import Sentence
from glassbert.text.alignment import as_offsets, pieces_of_characters
from glassbert.text.characters import is_chinese
from glassbert.text.segment import DictionarySegmenter, Segmenter, segmenter


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a token of an input comes from."""

    place: Place
    piece: int
    """Its number among the pieces of its text."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token that the model read; once, even if several windows hold it."""

    piece: str
    seats: tuple[tuple[int, int], ...]
    """The inputs that hold it, and its position in each."""
    place: Place | None
    """None for [CLS] and [SEP]."""
    is_fixed: bool
    """Whether it is part of the question rather than of the text: [CLS], [SEP], and a [MASK] to be filled."""


@dataclass(frozen=True, slots=True)
class Group:
    """Tokens that are judged together: one token, or those of a word."""

    name: str
    place: Place | None
    members: tuple[int, ...]
    """Their numbers in the list of tokens."""


def tokens_of(
    ids: Sequence[NDArray[np.int32]],
    spots: Sequence[Sequence[Spot | None]],
    pieces: Sequence[str],
    fixed_ids: Sequence[int] = (),
) -> tuple[Token, ...]:
    """Return the tokens of a question's inputs in the order of the texts.

    Args:
        spots: For each input, where each of its tokens comes from; None for specials.
        pieces: The vocabulary.
        fixed_ids: Ids that are part of the question.
    """
    seats: dict[object, list[tuple[int, int]]] = {}
    for number, row in enumerate(spots):
        for position, spot in enumerate(row):
            key = (number, position) if spot is None else (spot.place.text, spot.piece, "piece")
            seats.setdefault(key, []).append((number, position))
    found = []
    for own in seats.values():
        number, position = own[0]
        id_, spot = int(ids[number][position]), spots[number][position]
        is_fixed = spot is None or id_ in fixed_ids
        found.append(Token(pieces[id_], tuple(own), spot.place if spot else None, is_fixed))
    return tuple(found)


def grouped(
    tokens: Sequence[Token], texts: Sequence[str], unit: Unit, words_by: str | Path | None
) -> tuple[list[Group], list[str]]:
    """Return what is judged together, and notes for the user.

    Args:
        words_by: The segmenter of Chinese words; rjieba if it is installed, when not given.
    """
    if unit == "token":
        return [Group(token.piece, token.place, (index,)) for index, token in enumerate(tokens)], []
    notes: list[str] = []
    finder = _segmenter(words_by, texts, notes)
    groups = [Group(t.piece, None, (index,)) for index, t in enumerate(tokens) if t.place is None]
    for number, text in enumerate(texts):
        groups += _words(tokens, number, text, finder)
    return sorted(groups, key=lambda group: group.members[0]), notes


def _words(tokens: Sequence[Token], number: int, text: str, finder: Segmenter) -> list[Group]:
    """Return the words of a text that have tokens; a token in two words belongs to the first."""
    own = [index for index, token in enumerate(tokens) if token.place and token.place.text == number]
    spans = finder.words(text)
    if not own or not spans:
        return []
    places = [place for index in own if (place := tokens[index].place)]
    runs = pieces_of_characters(
        as_offsets([(place.start, place.end) for place in places]), *zip(*spans, strict=True)
    )
    groups, taken = [], 0
    for (start, end), first, stop in zip(spans, runs.start.tolist(), runs.stop.tolist(), strict=True):
        members = tuple(own[max(first, taken) : stop])
        taken = max(taken, stop)
        if members:
            groups.append(Group(text[start:end], Place(number, start, end), members))
    return groups


def _segmenter(words_by: str | Path | None, texts: Sequence[str], notes: list[str]) -> Segmenter:
    if words_by is not None:
        return segmenter(words_by)
    if any(is_chinese(character) for text in texts for character in text):
        try:
            return segmenter("rjieba")
        except UserError:
            notes.append(Sentence("no rjieba: each Chinese character counts as a word; name a segmenter"))
    return DictionarySegmenter(())
