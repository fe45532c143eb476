"""Add pieces to a vocabulary: which words can be added, to which rows, and from which old pieces.

Free `[unusedN]` rows are taken first, since the model has them already; then rows at the end.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from glassbert.errors import DataError, UserError
from glassbert.text.files import read_lines
from glassbert.text.vocabulary import Vocabulary, is_unused
from glassbert.text.wordpiece.folder import check_replaceable, holds_model
from glassbert.text.wordpiece.settings import MAX_CHARACTERS_PER_WORD
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.text.wordpiece.words import WordSplitter


class NewRow(NamedTuple):
    """A piece to add."""

    id: int
    piece: str
    old_ids: tuple[int, ...]
    """Its ids by the old tokenizer; the mean of their rows is a good start for the new row."""


class Refusal(NamedTuple):
    """A word that cannot become a piece."""

    word: str
    reason: str


class Coverage(NamedTuple):
    """How a tokenizer spells the words that can be pieces; refused ones are not counted."""

    num_words: int
    num_whole: int
    """Words that are one piece."""
    num_unknown: int
    """Words with an [UNK]."""
    num_pieces: int


@dataclass(frozen=True)
class ExtensionPlan:
    """The new vocabulary, and how it is made from the old one."""

    vocabulary: Vocabulary
    rows: tuple[NewRow, ...]
    refused: tuple[Refusal, ...]
    already: tuple[str, ...]
    """Words that are pieces of the old vocabulary."""
    num_duplicates: int
    """Lines whose normalised word repeats that of an earlier line."""
    num_empty: int
    before: Coverage
    after: Coverage
    unknown_starts: tuple[str, ...]
    """New pieces whose old ids are all [UNK]: the mean says nothing about them."""
    num_reused: int
    """Rows that were free in the old vocabulary."""


def extend_tokenizer(
    tokenizer: Tokenizer | str | Path,
    words: str | Path | Sequence[str],
    out: str | Path,
    *,
    overwrite: bool = False,
) -> ExtensionPlan:
    """Write a tokenizer with new pieces to the folder ``out`` and return what was added.

    Args:
        tokenizer: A tokenizer, or a folder with a vocabulary and no model; `interop.extend` also adds
            rows to a model.
        words: A file with one word per line, or a list of words.
        overwrite: Whether a vocabulary in ``out`` may be replaced.
    """
    reads = [one for one in (tokenizer, words) if isinstance(one, str | Path)]
    check_replaceable(out, overwrite=overwrite, reads=reads)
    if not isinstance(tokenizer, Tokenizer):
        if holds_model(tokenizer):
            raise UserError(
                f"{tokenizer} holds a model, which needs new rows too; use `glassbert vocab extend`"
            )
        tokenizer = Tokenizer.load(tokenizer)
    plan = plan_extension(tokenizer, words)
    Tokenizer(plan.vocabulary, **asdict(tokenizer.settings)).save(out, overwrite=overwrite)
    return plan


def plan_extension(tokenizer: Tokenizer, words: str | Path | Sequence[str]) -> ExtensionPlan:
    """Plan a row for each of ``words`` that is not a piece yet and can be one; at least one must be there.

    Args:
        words: A file with one word per line, or a list of words.
    """
    name, lines = (words, list(read_lines(words))) if isinstance(words, str | Path) else ("words", words)
    plan = _plan(tokenizer, lines)
    if not plan.rows:
        raise DataError(
            f"{name}: no word to add ({len(plan.already)} are pieces already, {len(plan.refused)} cannot be "
            "pieces); expected a new word on at least one line"
        )
    return plan


def _plan(tokenizer: Tokenizer, words: Sequence[str]) -> ExtensionPlan:
    candidates, refused, num_duplicates, num_empty = _sort_out(tokenizer, words)
    old = tokenizer.vocabulary
    already = tuple(word for word in candidates if word in old)
    fresh = [word for word in candidates if word not in old]
    free = [id_ for id_, piece in enumerate(old.pieces) if is_unused(piece)][: len(fresh)]
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
    """Return the distinct words that can be pieces, the refused ones, and how many repeat or are empty."""
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
