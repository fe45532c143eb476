"""BERT's tokenisation in plain Python, to be read; `Tokenizer` does the same with a compiled engine.

    text -> specials apart -> normalised characters -> words -> pieces -> [CLS] a [SEP] b [SEP]

Tests compare the two on every kind of text, offsets included.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from glassbert.text.characters import is_punctuation
from glassbert.text.normalise import Character, normalise
from glassbert.text.vocabulary import CLS, SEP, SPECIALS, UNK, Vocabulary
from glassbert.text.wordpiece.settings import MAX_CHARACTERS_PER_WORD

_ANY_SPECIAL = re.compile("|".join(re.escape(special) for special in SPECIALS))


@dataclass(frozen=True)
class Piece:
    """One piece and the characters of the text it covers; (0, 0) for the specials that we add."""

    text: str
    start: int
    end: int
    segment: int = 0


@dataclass(frozen=True)
class ReferenceTokenizer:
    """Text to pieces by the book: slow, and short enough to follow line by line."""

    vocabulary: Vocabulary
    lowercase: bool = True
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True

    def encode(
        self, text: str, pair: str | None = None, *, max_length: int = 512, parse_specials: bool = True
    ) -> list[Piece]:
        """Return the model input, the ends of texts that are too long cut off."""
        first = self.pieces(text, parse_specials=parse_specials)
        second = None if pair is None else self.pieces(pair, parse_specials=parse_specials)
        _cut_longest_first(first, second or [], max_length - (2 if second is None else 3))
        result = [Piece(CLS, 0, 0), *first, Piece(SEP, 0, 0)]
        if second is not None:
            result += [Piece(piece.text, piece.start, piece.end, segment=1) for piece in second]
            result.append(Piece(SEP, 0, 0, segment=1))
        return result

    def pieces(self, text: str, *, parse_specials: bool = False) -> list[Piece]:
        """Return the pieces of ``text``; with ``parse_specials``, a `[MASK]` in it is one piece."""
        specials = list(_ANY_SPECIAL.finditer(text)) if parse_specials else []
        result: list[Piece] = []
        at = 0
        for special in specials:
            result += self._pieces_between(text, at, special.start())
            result.append(Piece(special.group(), special.start(), special.end()))
            at = special.end()
        return result + self._pieces_between(text, at, len(text))

    def _pieces_between(self, text: str, start: int, end: int) -> list[Piece]:
        characters = normalise(
            text[start:end],
            lowercase=self.lowercase,
            strip_accents=self.strip_accents,
            tokenize_chinese_chars=self.tokenize_chinese_chars,
        )
        return [
            Piece(piece, start + word[first].start, start + word[last - 1].end)
            for word in split_words(characters)
            for piece, first, last in split_word("".join(c.value for c in word), self.vocabulary)
        ]


def split_words(characters: list[Character]) -> Iterator[list[Character]]:
    """Cut at spaces, which vanish, and around punctuation marks, each of which is a word."""
    word: list[Character] = []
    for character in characters:
        is_mark = is_punctuation(character.value)
        if is_mark or character.value == " ":
            if word:
                yield word
            word = []
            if is_mark:
                yield [character]
        else:
            word.append(character)
    if word:
        yield word


def split_word(word: str, vocabulary: Vocabulary) -> list[tuple[str, int, int]]:
    """Cut a word greedily: at each place the longest piece that the vocabulary holds.

    Pieces after the first carry `##`. If any place has no piece, the whole word is one [UNK]; so is a word
    that is too long. Returns (piece, start, end) with places in the word.
    """
    unknown = [(UNK, 0, len(word))]
    if len(word) > MAX_CHARACTERS_PER_WORD:
        return unknown
    pieces: list[tuple[str, int, int]] = []
    start = 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = word[start:end] if start == 0 else "##" + word[start:end]
            if piece in vocabulary:
                pieces.append((piece, start, end))
                start = end
                break
        else:
            return unknown
    return pieces


def _cut_longest_first(first: list[Piece], second: list[Piece], room: int) -> None:
    """Take pieces off the end of the longer text, one by one, until both fit into ``room``.

    Once both are equally long they take turns, and the text that was shorter gives first; the first text if
    they were equally long from the start.
    """
    shorter = second if len(first) > len(second) else first
    while len(first) + len(second) > room:
        if len(first) == len(second):
            shorter.pop()
        else:
            max(first, second, key=len).pop()
