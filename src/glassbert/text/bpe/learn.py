"""Learn a reversible vocabulary from texts of any languages: the same one for the same texts, everywhere.

The rows are: specials, the 256 bytes, the most frequent characters, then merges, most frequent first; see
`text/merging.py`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from glassbert.errors import DataError
from glassbert.ranges import Count, VocabularySize
from glassbert.text.bpe.pieces import BYTES, NUM_FIXED, SPECIALS, WORD
from glassbert.text.bpe.tokenizer import SubwordTokenizer
from glassbert.text.merging import Merger, most_frequent_first
from glassbert.text.tokenizer import for_engine
from glassbert.text.word_counts import add_up
from glassbert.typed import check_fields

_BLOCK_TEXTS = 1 << 14
_NUM_EXAMPLES = 10

_words = re.compile(WORD).findall


@dataclass(frozen=True, kw_only=True)
class SubwordSettings:
    """Settings of a reversible vocabulary."""

    size: VocabularySize = 8000
    """Rows of the vocabulary, specials and bytes included; met exactly."""
    max_alphabet: VocabularySize | None = None
    """How many characters get a row of their own; half of the size when not given."""
    min_count: Count = 2
    """How often a pair of pieces must occur in the text to become a piece."""
    max_words: Count = 1_000_000
    """How many distinct words are held in memory; beyond it the rarest are dropped, and reported."""

    def __post_init__(self) -> None:
        check_fields(self, "vocabulary")


@dataclass(frozen=True, kw_only=True)
class SubwordReport:
    """What was read and how it is spelled."""

    num_words: int
    num_distinct_words: int
    num_characters: int
    alphabet_size: int
    """Characters with a row of their own."""
    num_characters_by_bytes: int
    """Occurrences of the others."""
    by_bytes_examples: tuple[tuple[str, int], ...]
    """The most frequent of the others with their counts."""
    num_learned: int
    """Pieces of two and more characters."""
    last_count: int
    """How often the pair merged last occurs; 0 when nothing was merged."""
    num_pruned_words: int
    """Distinct words dropped to keep to `max_words`."""


@dataclass(frozen=True)
class LearnedSubwords:
    """The result of `learn_subwords`."""

    tokenizer: SubwordTokenizer
    report: SubwordReport


def learn_subwords(texts: Iterable[str], settings: SubwordSettings) -> LearnedSubwords:
    """Learn a vocabulary of exactly ``settings.size`` pieces; the texts of both sides for a joint one."""
    counts = add_up(_counts_of_blocks(iter(texts)), settings.max_words)
    if not counts.num_words:
        raise DataError("no text to learn a vocabulary from; give at least one sentence")
    by_frequency = most_frequent_first(counts.characters)
    num_kept = settings.size // 2 if settings.max_alphabet is None else settings.max_alphabet
    alphabet, others = sorted(by_frequency[:num_kept]), by_frequency[num_kept:]
    num_wanted = settings.size - NUM_FIXED - len(alphabet)
    if num_wanted < 0:
        raise DataError(
            f"vocabulary size {settings.size} is too small: specials and bytes take {NUM_FIXED} rows and "
            f"characters {len(alphabet)}; ask for {settings.size - num_wanted} or more, or fewer characters"
        )
    merger = Merger(alphabet, counts.words, continuing="")
    for _ in merger.learn(num_wanted, settings.min_count):
        pass
    pieces = (*SPECIALS, *BYTES, *merger.pieces)
    if len(pieces) < settings.size:
        raise DataError(
            f"vocabulary size {settings.size} is too large: this text gives {len(pieces)} pieces at most; "
            f"ask for {len(pieces)} or fewer, or add text"
        )
    merges = [(merger.pieces[left], merger.pieces[right]) for left, right in merger.merges]
    report = SubwordReport(
        num_words=counts.num_words,
        num_distinct_words=len(counts.words),
        num_characters=counts.characters.total(),
        alphabet_size=len(alphabet),
        num_characters_by_bytes=sum(counts.characters[character] for character in others),
        by_bytes_examples=tuple((c, counts.characters[c]) for c in others[:_NUM_EXAMPLES]),
        num_learned=len(merges),
        last_count=merger.last_count,
        num_pruned_words=counts.num_pruned_words,
    )
    return LearnedSubwords(SubwordTokenizer(pieces, merges), report)


def _counts_of_blocks(texts: Iterator[str]) -> Iterator[Counter[str]]:
    """Count words in blocks of texts, so that rare words are always dropped at the same places."""
    while block := list(islice(texts, _BLOCK_TEXTS)):
        counts: Counter[str] = Counter()
        for text in for_engine(block):
            if text:
                counts.update(_words(f" {text}"))
        yield counts
