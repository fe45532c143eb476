"""Plan new pieces for a vocabulary: which words can be added, to which rows, and from which old pieces.

Free `[unusedN]` rows are taken first, since the model has them already; then rows at the end.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from glassbert.text.vocabulary import Vocabulary
from glassbert.text.word_counts import WordSplitter
from glassbert.text.wordpiece.tokenizer import MAX_CHARACTERS_PER_WORD, Tokenizer

UNUSED = re.compile(r"\[unused\d+\]")


class NewRow(NamedTuple):
    """A piece to be added."""

    id: int
    piece: str
    old_ids: tuple[int, ...]
    """What the old tokenizer gave for it; their mean is a good start for the new row."""


class Refusal(NamedTuple):
    """A word that cannot become a piece."""

    word: str
    reason: str


class Coverage(NamedTuple):
    """How a tokenizer does on the words that can be pieces, refused ones left out."""

    num_words: int
    num_whole: int
    """Words that are one piece."""
    num_unknown: int
    """Words with an [UNK]."""
    num_pieces: int


@dataclass(frozen=True)
class ExtensionPlan:
    """The new vocabulary, and how it comes from the old one."""

    vocabulary: Vocabulary
    rows: tuple[NewRow, ...]
    refused: tuple[Refusal, ...]
    already: tuple[str, ...]
    """Words that are pieces of the old vocabulary."""
    num_duplicates: int
    """Lines that give, once normalised, a word that an earlier line gave."""
    num_empty: int
    before: Coverage
    after: Coverage
    unknown_starts: tuple[str, ...]
    """New pieces whose old ids are [UNK] only: the mean says nothing about them."""
    num_reused: int
    """Rows that were free in the old vocabulary."""


def plan_extension(tokenizer: Tokenizer, words: Sequence[str]) -> ExtensionPlan:
    """Plan a row for each of ``words`` that is not a piece yet and can be one."""
    candidates, refused, num_duplicates, num_empty = _sort_out(tokenizer, words)
    old = tokenizer.vocabulary
    already = tuple(word for word in candidates if word in old)
    fresh = [word for word in candidates if word not in old]
    free = [id_ for id_, piece in enumerate(old.pieces) if UNUSED.fullmatch(piece)][: len(fresh)]
    ids = [*free, *range(len(old), len(old) + len(fresh) - len(free))]
    old_ids = tokenizer.ids_of_batch(fresh)
    rows = tuple(
        NewRow(id_, word, tuple(pieces)) for id_, word, pieces in zip(ids, fresh, old_ids, strict=True)
    )
    num_candidates = len(candidates)
    return ExtensionPlan(
        vocabulary=_with_rows(old, rows),
        rows=rows,
        refused=refused,
        already=already,
        num_duplicates=num_duplicates,
        num_empty=num_empty,
        before=Coverage(
            num_words=num_candidates,
            num_whole=len(already),
            num_unknown=sum(old.unk_id in row.old_ids for row in rows),
            num_pieces=len(already) + sum(len(row.old_ids) for row in rows),
        ),
        after=Coverage(num_candidates, num_whole=num_candidates, num_unknown=0, num_pieces=num_candidates),
        unknown_starts=tuple(row.piece for row in rows if set(row.old_ids) == {old.unk_id}),
        num_reused=len(free),
    )


def _sort_out(tokenizer: Tokenizer, lines: Sequence[str]) -> tuple[list[str], tuple[Refusal, ...], int, int]:
    """Return the distinct words that can be pieces, the refused ones, how many repeat and are empty."""
    splitter = WordSplitter(tokenizer.settings)
    candidates: dict[str, None] = {}
    refused: dict[str, str] = {}
    num_duplicates = num_empty = 0
    for line in lines:
        text = line.strip()
        words = splitter.words(text)
        reason = _reason_against(words)
        if not text:
            num_empty += 1
        elif text in refused or (reason is None and words[0] in candidates):
            num_duplicates += 1
        elif reason is not None:
            refused[text] = reason
        else:
            candidates[words[0]] = None
    refusals = tuple(Refusal(word, reason) for word, reason in refused.items())
    return list(candidates), refusals, num_duplicates, num_empty


def _reason_against(words: list[str]) -> str | None:
    """Return why the words of one line cannot be one piece."""
    if not words:
        return "nothing is left of it after cleaning"
    if len(words) > 1:
        return f"the tokenizer cuts it into {len(words)} words: {' '.join(words)}"
    if len(words[0]) > MAX_CHARACTERS_PER_WORD:
        return f"it has {len(words[0])} characters; a word of more than {MAX_CHARACTERS_PER_WORD} is [UNK]"
    return None


def _with_rows(old: Vocabulary, rows: Sequence[NewRow]) -> Vocabulary:
    pieces = list(old.pieces)
    for row in rows:
        pieces[row.id : row.id + 1] = [row.piece]
    return Vocabulary(tuple(pieces))
