"""Learn a WordPiece vocabulary: the same bytes for the same text on any machine and any number of processes.

The rows are: special pieces, unused rows, the alphabet, then merges; see `text/merging.py`. Merging by count,
not by the likelihood score count(ab) / (count(a) count(b)), needs fewer pieces per word on text that was not
learned from; docs/log.md has the figures.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypedDict, Unpack

from glassbert.arguments import checked
from glassbert.errors import DataError, UserError
from glassbert.messages import Log, to_stderr
from glassbert.ranges import PROCESSES, Count, Range, ShareAboveZero, VocabularySize
from glassbert.text.characters import is_ideograph, is_punctuation
from glassbert.text.documents import Form
from glassbert.text.merging import Merger, most_frequent_first
from glassbert.text.vocabulary import SPECIALS, Vocabulary, unused_pieces
from glassbert.text.word_counts import OnProgress, WordCounts, count_words
from glassbert.text.wordpiece.folder import check_replaceable
from glassbert.text.wordpiece.settings import TokenizerSettings
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.typed import check_fields

_NUM_EXAMPLES = 10
_MERGES_PER_REPORT = 64


@dataclass(frozen=True, kw_only=True)
class LearnSettings:
    """Settings of a vocabulary."""

    size: VocabularySize
    """Rows of the vocabulary, special pieces included; met exactly."""
    cased: bool = False
    """Keep capital letters and accents."""
    min_count: Count = 1
    """How often a pair of pieces must occur in the text to become a piece. Not 2 by default: the requested
    size has priority, and the report shows how rare the last pair is."""
    alphabet_coverage: ShareAboveZero = 0.9999
    """Share of the characters of the text that the alphabet covers, the most frequent characters first."""
    max_alphabet: VocabularySize | None = None
    """How many characters the alphabet holds at most."""
    num_unused: Annotated[int, Range(0, 10**6)] = 0
    """Rows `[unused1]` ... kept free. None by default: each takes a row away from real pieces, and `vocab
    extend` can add rows at the end as well."""
    processes: Annotated[int, PROCESSES] = 1
    """Processes that count words. With two or more, a script needs `if __name__ == "__main__"`."""
    max_words: Count = 1_000_000
    """How many distinct words are held in memory; beyond it the rarest are dropped, and reported."""

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def tokenizer_settings(self) -> TokenizerSettings:
        """The rules that belong to the learned vocabulary."""
        return TokenizerSettings(lowercase=not self.cased)


class LearnFields(TypedDict, total=False):
    """The fields of `LearnSettings` as keyword arguments."""

    size: int
    cased: bool
    min_count: int
    alphabet_coverage: float
    max_alphabet: int | None
    num_unused: int
    processes: int
    max_words: int


@dataclass(frozen=True, kw_only=True)
class LearnReport:
    """What was read, what was kept and what was left out."""

    size: int
    num_words: int
    """Occurrences of words in the text; each Chinese character and punctuation mark is a word."""
    num_distinct_words: int
    """Distinct words, without the pruned ones."""
    num_characters: int
    num_distinct_characters: int
    alphabet_size: int
    """Characters kept."""
    alphabet_rows: int
    """Pieces of one character: a kept character on its own, and after `##` where it can continue a word."""
    coverage: float
    """Share of all characters that are kept ones."""
    num_dropped_characters: int
    """Distinct characters that were not kept; words with them become [UNK]."""
    dropped_examples: tuple[tuple[str, int], ...]
    """The most frequent of them with their counts."""
    num_unknown_words: int
    """Occurrences of words that become [UNK]: with a dropped character, or too long."""
    num_learned: int
    """Pieces of two and more characters, each learned by a merge."""
    last_count: int
    """How often the pair merged last occurs; 0 when nothing was merged."""
    num_pruned_words: int
    """Distinct words dropped to keep to `max_words`."""
    num_pruned_occurrences: int


@dataclass(frozen=True)
class LearnedVocabulary:
    """The result of `learn_vocabulary`."""

    tokenizer: Tokenizer
    report: LearnReport

    @property
    def vocabulary(self) -> Vocabulary:
        """The learned pieces."""
        return self.tokenizer.vocabulary


@dataclass(frozen=True)
class Alphabet:
    """The characters that the vocabulary can spell words with."""

    characters: tuple[str, ...]
    dropped: tuple[str, ...]
    """The others, the most frequent first."""
    pieces: tuple[str, ...]
    """The characters, then their `##` forms, each by code point."""


@checked
def learn_vocabulary(
    files: str | Path | Sequence[str | Path],
    settings: LearnSettings | None = None,
    *,
    out: str | Path | None = None,
    form: Form | None = None,
    overwrite: bool = False,
    log: Log = to_stderr,
    on_progress: OnProgress | None = None,
    **fields: Unpack[LearnFields],
) -> LearnedVocabulary:
    """Learn a vocabulary of exactly the size asked for: ``learn_vocabulary("text.txt", size=8000)``.

    Args:
        files: Text files, plain or packed, or folders of them, in any form that `build_corpus` reads.
        settings: All settings in one object, instead of ``fields``.
        out: Folder to write the tokenizer to.
        form: sentences, paragraphs, documents, jsonl or wikitext; detected if not given.
        overwrite: Whether a vocabulary in ``out`` may be replaced.
        log: Receives lines for the user.
        fields: The settings by name: ``size``, which is required, ``cased``, ``processes`` and the others of
            `LearnSettings`.
    """
    settings = _settings(settings, fields)
    if out is not None:
        reads = [files] if isinstance(files, str | Path) else files
        check_replaceable(out, overwrite=overwrite, reads=reads)
    counts = count_words(
        files,
        settings.tokenizer_settings,
        max_words=settings.max_words,
        form=form,
        processes=settings.processes,
        log=log,
        on_progress=on_progress,
    )
    learned = _learn(counts, settings, on_progress)
    if out is not None:
        learned.tokenizer.save(out, overwrite=overwrite)
    return learned


def _settings(settings: LearnSettings | None, fields: LearnFields) -> LearnSettings:
    if settings is not None:
        if fields:
            raise UserError(f"got settings and {next(iter(fields))}; give one or the other")
        return settings
    if "size" not in fields:
        raise UserError("no size given; expected the number of pieces, such as size=8000")
    return LearnSettings(**fields)


def _learn(counts: WordCounts, settings: LearnSettings, on_progress: OnProgress | None) -> LearnedVocabulary:
    """Choose the alphabet and merge pieces until the size is reached."""
    alphabet = choose_alphabet(counts.characters, settings)
    reserved = [*SPECIALS, *unused_pieces(settings.num_unused)]
    num_wanted = settings.size - len(reserved) - len(alphabet.pieces)
    if num_wanted < 0:
        raise DataError(
            f"size {settings.size} is too small: {len(reserved)} reserved rows and {len(alphabet.pieces)} "
            f"for {len(alphabet.characters)} characters need {settings.size - num_wanted}; "
            "ask for more, or keep fewer characters with --alphabet-coverage or --max-alphabet"
        )
    merger = Merger(alphabet.pieces, counts.words)
    for num_learned in merger.learn(num_wanted, settings.min_count):
        if on_progress and num_learned % _MERGES_PER_REPORT == 0:
            on_progress(num_learned, num_wanted, "merge pieces")
    pieces = (*reserved, *merger.pieces)
    if len(pieces) < settings.size:
        hint = f", or lower --min-count (now {settings.min_count})" if settings.min_count > 1 else ""
        raise DataError(
            f"size {settings.size} is too large: this text gives {len(pieces)} pieces at most; "
            f"ask for {len(pieces)} or fewer, or add text{hint}"
        )
    tokenizer = Tokenizer(Vocabulary(pieces), lowercase=not settings.cased)
    return LearnedVocabulary(tokenizer, _report(counts, alphabet, merger, settings))


def choose_alphabet(counts: Counter[str], settings: LearnSettings) -> Alphabet:
    """Keep the most frequent characters until enough of the text is covered; at a tie, the lower code."""
    by_frequency = most_frequent_first(counts)
    wanted, covered, num_kept = settings.alphabet_coverage * counts.total(), 0, 0
    for character in by_frequency[: settings.max_alphabet]:
        if covered >= wanted:
            break
        covered += counts[character]
        num_kept += 1
    characters = sorted(by_frequency[:num_kept])
    continuing = (f"##{character}" for character in characters if can_continue(character))
    return Alphabet(tuple(characters), tuple(by_frequency[num_kept:]), (*characters, *continuing))


def can_continue(character: str) -> bool:
    """Return whether ``character``, which cleaning leaves, can follow another one in a word."""
    return not is_ideograph(character) and not is_punctuation(character)


def _report(counts: WordCounts, alphabet: Alphabet, merger: Merger, settings: LearnSettings) -> LearnReport:
    num_characters = counts.characters.total()
    num_dropped = sum(counts.characters[character] for character in alphabet.dropped)
    return LearnReport(
        size=settings.size,
        num_words=counts.num_words,
        num_distinct_words=len(counts.words),
        num_characters=num_characters,
        num_distinct_characters=len(counts.characters),
        alphabet_size=len(alphabet.characters),
        alphabet_rows=len(alphabet.pieces),
        coverage=1 - num_dropped / num_characters,
        num_dropped_characters=len(alphabet.dropped),
        dropped_examples=tuple((c, counts.characters[c]) for c in alphabet.dropped[:_NUM_EXAMPLES]),
        num_unknown_words=merger.num_unspelled,
        num_learned=len(merger.pieces) - len(alphabet.pieces),
        last_count=merger.last_count,
        num_pruned_words=counts.num_pruned_words,
        num_pruned_occurrences=counts.num_pruned_occurrences,
    )
