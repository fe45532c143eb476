"""Learn a WordPiece vocabulary: the same bytes for the same text on any machine and any number of processes.

The vocabulary is built in this order: special pieces, unused rows, the alphabet, then merges. Each step
merges the two neighbouring pieces that occur together most often; a tie goes to the pair whose left piece,
then whose right piece, stands earlier in the vocabulary. Merging by count, not by the likelihood score
count(ab) / (count(a) count(b)), needs fewer pieces a word on text that was not learned from; docs/log.md has
the figures.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from glassbert.errors import DataError, UserError
from glassbert.text.characters import is_chinese, is_punctuation
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.word_counts import OnProgress, WordCounts, count_words, input_files
from glassbert.text.wordpiece.folder import TokenizerSettings
from glassbert.text.wordpiece.tokenizer import MAX_CHARACTERS_PER_WORD

Pair = tuple[int, int]

# Two planes of Unicode that hold nothing else; no ideograph shall get a `##` piece.
_NEW_IDEOGRAPHS = range(0x20000, 0x40000)
_NUM_EXAMPLES = 10
_NUM_NAMED = 3
_MERGES_PER_REPORT = 64


@dataclass(frozen=True, kw_only=True)
class LearnSettings:
    """What kind of vocabulary is wanted."""

    size: int
    """Rows of the vocabulary, special pieces included; met exactly."""
    cased: bool = False
    """Keep capital letters and accents."""
    min_count: int = 1
    """How often a pair of pieces must occur in the text to become a piece. Not 2 by default: the size asked
    for comes first, and the report tells how rare the last pair is."""
    alphabet_coverage: float = 0.9999
    """Which share of the characters of the text the alphabet covers, the most frequent characters first."""
    max_alphabet: int | None = None
    """How many characters the alphabet holds at most."""
    num_unused: int = 0
    """Rows `[unused1]` ... kept free. None by default: each takes a row of the size asked for away from real
    pieces, and `vocab extend` can add rows at the end as well."""
    processes: int = 1
    """Processes that count words. With two or more, a script needs `if __name__ == "__main__"`."""
    max_words: int = 1_000_000
    """How many distinct words are held in memory; beyond it the rarest are dropped, and told."""

    def __post_init__(self) -> None:
        for name in ("size", "min_count", "max_alphabet", "processes", "max_words"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name}={value} makes no sense; use 1 or more")
        if self.num_unused < 0:
            raise UserError(f"num_unused={self.num_unused} makes no sense; use 0 or more")
        if not 0 < self.alphabet_coverage <= 1:
            raise UserError(f"alphabet_coverage={self.alphabet_coverage} is not above 0 and at most 1")

    @property
    def tokenizer_settings(self) -> TokenizerSettings:
        """The rules that the learned vocabulary is to be used with."""
        return TokenizerSettings(lowercase=not self.cased)


@dataclass(frozen=True, kw_only=True)
class LearnReport:
    """What was read, what was kept and what was left out."""

    size: int
    num_words: int
    """Occurrences of words in the text; a CJK character and a punctuation mark is a word each."""
    num_distinct_words: int
    """Distinct words that were held to the end."""
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

    vocabulary: Vocabulary
    report: LearnReport


@dataclass(frozen=True)
class Alphabet:
    """The characters that the vocabulary can spell words with."""

    characters: tuple[str, ...]
    dropped: tuple[str, ...]
    """The others, the most frequent first."""
    pieces: tuple[str, ...]
    """The characters, then their `##` forms, each by code point."""


def learn_vocabulary(
    files: Sequence[Path], settings: LearnSettings, on_progress: OnProgress | None = None
) -> LearnedVocabulary:
    """Learn a vocabulary of exactly ``settings.size`` pieces from text files, `.jsonl` files or folders."""
    counts = count_words(
        input_files(files),
        settings.tokenizer_settings,
        max_words=settings.max_words,
        processes=settings.processes,
        on_progress=on_progress,
    )
    if not counts.num_words:
        names = ", ".join(map(str, files[:_NUM_NAMED])) + (", ..." if len(files) > _NUM_NAMED else "")
        raise DataError(f"{names or 'no file given'}: no word found; text is needed to learn from")
    alphabet = choose_alphabet(counts.characters, settings)
    reserved = [*SPECIALS, *(f"[unused{number}]" for number in range(1, settings.num_unused + 1))]
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
    return LearnedVocabulary(Vocabulary(pieces), _report(counts, alphabet, merger, settings))


def choose_alphabet(counts: Counter[str], settings: LearnSettings) -> Alphabet:
    """Keep the most frequent characters until enough of the text is covered; of equals, the lower code."""
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


def most_frequent_first(counts: Counter[str]) -> list[str]:
    """Return the characters by how often they occur; of equals, the lower code first."""
    return sorted(counts, key=lambda character: (-counts[character], character))


def can_continue(character: str) -> bool:
    """Return whether ``character``, which cleaning leaves, can stand in a word after another one."""
    return not is_ideograph(character) and not is_punctuation(character)


def is_ideograph(character: str) -> bool:
    """Return whether ``character`` is a Chinese one, also of the newer ones that BERT's list lacks."""
    return is_chinese(character) or ord(character) in _NEW_IDEOGRAPHS


class Merger:
    """The words of the text as runs of pieces, and the merging of pieces that stand together most often."""

    def __init__(self, alphabet: Sequence[str], counts: Counter[str], *, continuing: str = "##") -> None:
        """Spell each word with the alphabet; a word that cannot be spelled has no part in learning.

        Args:
            continuing: what a piece that continues a word begins with.
        """
        self.pieces = list(alphabet)
        self.merges: list[Pair] = []
        """Which two pieces each learned one was made of."""
        self.last_count = 0
        self.num_unspelled = 0
        """Occurrences of the words left out."""
        self._continuing = continuing
        ids = {piece: id_ for id_, piece in enumerate(alphabet)}
        self._words: list[list[int]] = []
        self._word_counts: list[int] = []
        for word, count in counts.items():
            spelled = _spell(word, ids, continuing)
            if spelled is None:
                self.num_unspelled += count
            elif len(spelled) > 1:
                self._words.append(spelled)
                self._word_counts.append(count)
        self._pair_counts: dict[Pair, int] = defaultdict(int)
        # Entries are never taken out of these lists; a word that no longer holds the pair is passed over.
        self._words_with: dict[Pair, list[int]] = defaultdict(list)
        for index, (spelled, count) in enumerate(zip(self._words, self._word_counts, strict=True)):
            for pair in zip(spelled, spelled[1:], strict=False):
                self._pair_counts[pair] += count
                self._words_with[pair].append(index)
        # Smallest first, hence the minus. An entry may be out of date, but only by showing too high a count.
        self._heap = [(-count, pair) for pair, count in self._pair_counts.items()]
        heapq.heapify(self._heap)

    def learn(self, num_wanted: int, min_count: int) -> Iterator[int]:
        """Add pieces until there are ``num_wanted`` more, or no pair is left; yield how many there are."""
        start = len(self.pieces)
        while len(self.pieces) - start < num_wanted:
            pair = self._most_frequent_pair(min_count)
            if pair is None:
                return
            self._merge(pair)
            yield len(self.pieces) - start

    def _most_frequent_pair(self, min_count: int) -> Pair | None:
        while self._heap:
            negative_count, pair = heapq.heappop(self._heap)
            count = self._pair_counts.get(pair, 0)
            if count < min_count:
                continue
            if count == -negative_count:
                self.last_count = count
                return pair
            heapq.heappush(self._heap, (-count, pair))
        return None

    def _merge(self, pair: Pair) -> None:
        """Make one piece of ``pair`` wherever it stands, and bring all counts up to date."""
        # The piece is always new: no merge crosses the borders of a piece before it is whole, so the same
        # characters always grow into it by the same merges: `ab` + `##c` rules out `a` + `##bc`.
        merged = len(self.pieces)
        self.pieces.append(self.pieces[pair[0]] + self.pieces[pair[1]].removeprefix(self._continuing))
        self.merges.append(pair)
        changes: dict[Pair, int] = defaultdict(int)
        for index in self._words_with.pop(pair):
            old = self._words[index]
            new = _replace(old, pair, merged)
            if len(new) == len(old):
                continue
            self._words[index] = new
            count = self._word_counts[index]
            for neighbours in zip(old, old[1:], strict=False):
                changes[neighbours] -= count
            for neighbours in zip(new, new[1:], strict=False):
                changes[neighbours] += count
                if merged in neighbours:
                    self._words_with[neighbours].append(index)
        self._apply(changes)

    def _apply(self, changes: dict[Pair, int]) -> None:
        for pair, change in changes.items():
            if not change:
                continue
            count = self._pair_counts[pair] + change
            if count:
                self._pair_counts[pair] = count
            else:
                del self._pair_counts[pair]
                self._words_with.pop(pair, None)
            if change > 0:
                heapq.heappush(self._heap, (-count, pair))


def _spell(word: str, ids: dict[str, int], continuing: str) -> list[int] | None:
    """Return ``word`` in pieces of one character; None when the tokenizer makes it [UNK]."""
    if len(word) > MAX_CHARACTERS_PER_WORD:
        return None
    try:
        return [ids[word[0]], *(ids[continuing + character] for character in word[1:])]
    except KeyError:
        return None


def _replace(word: list[int], pair: Pair, merged: int) -> list[int]:
    """Return ``word`` with ``merged`` in place of each ``pair``, from left to right."""
    left, right = pair
    new: list[int] = []
    index, last = 0, len(word) - 1
    while index <= last:
        if word[index] == left and index < last and word[index + 1] == right:
            new.append(merged)
            index += 2
        else:
            new.append(word[index])
            index += 1
    return new


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
