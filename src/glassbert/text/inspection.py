"""Inspect a vocabulary: what its rows are, which can never be used, and how well it fits a text."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from glassbert.arguments import checked
from glassbert.messages import Log, to_stderr
from glassbert.text.characters import is_ideograph, is_punctuation
from glassbert.text.documents import Form
from glassbert.text.vocabulary import SPECIALS, is_reserved, is_unused
from glassbert.text.word_counts import OnProgress, count_words
from glassbert.text.wordpiece.dead_rows import REASONS, dead_pieces
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.text.wordpiece.words import WordSplitter

_NUM_EXAMPLES = 10
_WORDS_PER_BATCH = 10_000
# More distinct words than this are rare in any text that a vocabulary is inspected with.
_MAX_WORDS = 1_000_000


@dataclass(frozen=True)
class KindCount:
    """How many pieces of one kind there are."""

    starting: int
    """Pieces that start a word, whole words among them."""
    continuing: int
    """Pieces with `##`."""


@dataclass(frozen=True)
class DeadRows:
    """Pieces that the tokenizer can never give, for one reason."""

    reason: str
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class VocabularyReport:
    """The rows of a vocabulary by kind."""

    size: int
    cased: bool
    specials: dict[str, int]
    """The id of each."""
    num_unused: int
    """Rows `[unusedN]`, free for `vocab extend`."""
    kinds: dict[str, KindCount]
    """By script, `digits`, `punctuation`, `symbols` or `mixed`; specials and unused rows left out."""
    dead: dict[str, DeadRows]

    @property
    def num_dead(self) -> int:
        """Rows that can never be used."""
        return sum(rows.count for rows in self.dead.values())


@dataclass(frozen=True)
class TextReport:
    """How well a tokenizer fits a text. Each Chinese character and punctuation mark is a word."""

    num_words: int
    num_characters: int
    """Of words; spaces are not counted."""
    num_pieces: int
    pieces_per_word: float
    pieces_per_long_word: float
    """For words of two and more characters only, so that Chinese and punctuation do not hide the others."""
    characters_per_piece: float
    num_unknown: int
    """Pieces that are [UNK]: one for each word that cannot be spelled."""
    unknown_rate: float
    """Share of all pieces."""
    num_distinct_unknown: int
    unknown_examples: tuple[tuple[str, int], ...]
    """The most frequent unknown words with their counts."""
    coverage: float
    """Share of the characters that are in known words."""
    num_rows_used: int
    rows_used: float
    """Share of the rows that can be used at all: not special, unused or dead."""
    num_pruned_occurrences: int
    """Occurrences of rare words that were left out to bound memory."""


@checked
def inspect_vocabulary(tokenizer: Tokenizer) -> VocabularyReport:
    """Count the pieces by kind and find those that can never be used."""
    vocabulary = tokenizer.vocabulary
    splitter = WordSplitter(tokenizer.settings)
    pieces = [piece for piece in vocabulary.pieces if not is_reserved(piece)]
    starting = Counter(_kind(piece) for piece in pieces if not piece.startswith("##"))
    continuing = Counter(_kind(piece[2:]) for piece in pieces if piece.startswith("##"))
    dead = dead_pieces(pieces, splitter)
    return VocabularyReport(
        size=len(vocabulary),
        cased=not tokenizer.settings.lowercase,
        specials=dict(zip(SPECIALS, vocabulary.special_ids, strict=True)),
        num_unused=sum(map(is_unused, vocabulary.pieces)),
        kinds={
            kind: KindCount(starting[kind], continuing[kind])
            for kind, _ in sorted((starting + continuing).items(), key=lambda item: (-item[1], item[0]))
        },
        dead={
            name: DeadRows(REASONS[name], len(found), tuple(found[:_NUM_EXAMPLES]))
            for name in REASONS
            if (found := [piece for piece, reason in dead.items() if reason == name])
        },
    )


@checked
def inspect_text(
    tokenizer: Tokenizer,
    files: str | Path | Sequence[str | Path],
    *,
    form: Form | None = None,
    log: Log = to_stderr,
    on_progress: OnProgress | None = None,
) -> TextReport:
    """Measure the tokenizer on text: files or folders, in any form that `learn_vocabulary` reads."""
    counts = count_words(
        files, tokenizer.settings, max_words=_MAX_WORDS, form=form, log=log, on_progress=on_progress
    )
    unknown: Counter[str] = Counter()
    used: set[int] = set()
    sums: Counter[str] = Counter()
    for word, ids in _encoded(tokenizer, sorted(counts.words)):
        count = counts.words[word]
        sums.update(words=count, characters=count * len(word), pieces=count * len(ids))
        if len(word) > 1:
            sums.update(long_words=count, long_pieces=count * len(ids))
        if tokenizer.vocabulary.unk_id in ids:
            unknown[word] += count
            sums["unknown_characters"] += count * len(word)
        used.update(ids)
    return _text_report(tokenizer, sums, unknown, used, counts.num_pruned_occurrences)


def _text_report(
    tokenizer: Tokenizer, sums: Counter[str], unknown: Counter[str], used: set[int], num_pruned: int
) -> TextReport:
    vocabulary = tokenizer.vocabulary
    usable = [piece for piece in vocabulary.pieces if not is_reserved(piece)]
    num_usable = len(usable) - len(dead_pieces(usable, WordSplitter(tokenizer.settings)))
    num_used = len(used - set(vocabulary.special_ids))
    by_count = sorted(unknown.items(), key=lambda item: (-item[1], item[0]))
    return TextReport(
        num_words=sums["words"],
        num_characters=sums["characters"],
        num_pieces=sums["pieces"],
        pieces_per_word=sums["pieces"] / sums["words"],
        pieces_per_long_word=sums["long_pieces"] / max(sums["long_words"], 1),
        characters_per_piece=sums["characters"] / sums["pieces"],
        num_unknown=unknown.total(),
        unknown_rate=unknown.total() / sums["pieces"],
        num_distinct_unknown=len(unknown),
        unknown_examples=tuple(by_count[:_NUM_EXAMPLES]),
        coverage=1 - sums["unknown_characters"] / sums["characters"],
        num_rows_used=num_used,
        rows_used=num_used / max(num_usable, 1),
        num_pruned_occurrences=num_pruned,
    )


def _encoded(tokenizer: Tokenizer, words: Sequence[str]) -> Iterable[tuple[str, list[int]]]:
    for start in range(0, len(words), _WORDS_PER_BATCH):
        batch = words[start : start + _WORDS_PER_BATCH]
        yield from zip(batch, tokenizer.ids_of_batch(batch), strict=True)


def _kind(body: str) -> str:
    """Return the kind that all characters of a piece share, or `mixed`."""
    kinds = {_character_kind(character) for character in body}
    return kinds.pop() if len(kinds) == 1 else "mixed"


def _character_kind(character: str) -> str:
    if is_ideograph(character):
        return "cjk"
    if character.isnumeric():
        return "digits"
    if character.isalpha():
        # Python does not know scripts, but a letter's name starts with its script: GREEK SMALL LETTER ALPHA.
        return unicodedata.name(character, "unnamed").split()[0].lower()
    return "punctuation" if is_punctuation(character) else "symbols"
