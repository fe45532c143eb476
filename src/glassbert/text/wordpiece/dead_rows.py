"""Rows of a vocabulary that no text can reach, and why."""

from collections.abc import Iterable
from typing import Literal

from glassbert.text.characters import is_ideograph
from glassbert.text.wordpiece.settings import MAX_CHARACTERS_PER_WORD
from glassbert.text.wordpiece.words import WordSplitter

Reason = Literal["cjk_continuation", "cut", "normalised", "too_long"]

REASONS: dict[Reason, str] = {
    "cjk_continuation": "## before a Chinese character, which is always a word of its own",
    "cut": "the tokenizer cuts it, for example at punctuation, before it looks up pieces",
    "normalised": "holds what normalising changes: capital letters, accents",
    "too_long": f"of words over {MAX_CHARACTERS_PER_WORD} characters, which become [UNK]",
}


def dead_pieces(pieces: Iterable[str], splitter: WordSplitter) -> dict[str, Reason]:
    """Return the pieces that no text can give, each with its reason; specials are left out.

    Matching longer pieces first makes no piece unreachable: after the longest piece that starts a word,
    every `##` piece is found.
    """
    reasons = {piece: _reason(piece, splitter) for piece in pieces}
    return {piece: reason for piece, reason in reasons.items() if reason is not None}


def _reason(piece: str, splitter: WordSplitter) -> Reason | None:
    """Return why the tokenizer can never give this piece."""
    is_continuing = piece.startswith("##") and len(piece) > 2
    word = f"a{piece[2:]}" if is_continuing else piece
    words = splitter.words(word)
    if is_continuing and is_ideograph(piece[2]):
        return "cjk_continuation"
    if len(words) != 1:
        return "cut" if words else "normalised"
    if words[0] != word:
        return "normalised"
    return "too_long" if len(word) > MAX_CHARACTERS_PER_WORD else None
