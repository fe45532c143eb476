"""Learn pieces by merging: each step joins the two neighbouring pieces that occur together most often.

A tie goes to the pair whose left piece, then whose right piece, is earlier in the vocabulary, so that the
same counts always give the same pieces.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from glassbert.text.wordpiece.settings import MAX_CHARACTERS_PER_WORD

Pair = tuple[int, int]


def most_frequent_first(counts: Counter[str]) -> list[str]:
    """Return the characters by how often they occur; at a tie, the lower code first."""
    return sorted(counts, key=lambda character: (-counts[character], character))


class Merger:
    """The words of a text as runs of pieces; merges the neighbours that occur together most often."""

    def __init__(self, alphabet: Sequence[str], counts: Counter[str], *, continuing: str = "##") -> None:
        """Spell each word with the alphabet; a word that cannot be spelled is left out.

        Args:
            continuing: the prefix of a piece that continues a word.
        """
        self.pieces = list(alphabet)
        self.merges: list[Pair] = []
        """The two pieces that each learned one was made of."""
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
        # Entries are never removed from these lists; a word that no longer holds the pair is skipped.
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
        """Make one piece of ``pair`` wherever it occurs, and update all counts."""
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
