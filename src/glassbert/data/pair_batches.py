"""Sentence pairs as ids, and the batches of a run as a pure function of seed, epoch and step.

Legend: N pairs, B pairs of a batch, S source tokens, T target tokens.
"""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from glassbert.data.epochs import Epochs
from glassbert.data.pretraining.batches import fill_batches
from glassbert.data.random import Draw, permutation
from glassbert.data.sentence_pairs import SentencePair
from glassbert.errors import DataError, UserError
from glassbert.text.bpe.tokenizer import SubwordTokenizer

POOL_BATCHES = 16
"""Pairs of this many batches are sorted by length, so that attention has few shapes in a batch."""

_CHUNK_PAIRS = 1 << 13


@dataclass(frozen=True)
class Sentences:
    """Many sentences as one run of ids, without specials."""

    ids: NDArray[np.int32]
    ends: NDArray[np.int64]
    """Where each sentence ends, (N,)."""

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Ids of each sentence, (N,)."""
        return np.diff(self.ends, prepend=0)

    def __getitem__(self, index: int) -> list[int]:
        start = int(self.ends[index - 1]) if index else 0
        return self.ids[start : int(self.ends[index])].tolist()

    def __len__(self) -> int:
        return len(self.ends)

    def gathered(self, members: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids of some sentences, concatenated."""
        lengths = self.lengths[members]
        ends = np.cumsum(lengths)
        shifts = self.ends[members] - ends
        return self.ids[np.arange(ends[-1]) + np.repeat(shifts, lengths)].astype(np.int64)


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs of sentences, and the ids that begin and end them."""

    sources: Sentences
    targets: Sentences
    start_id: int
    end_id: int
    num_too_long: int = 0
    """Pairs that were left out."""

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def source_lengths(self) -> NDArray[np.int64]:
        """Tokens of each source, the end included, (N,)."""
        return self.sources.lengths + 1

    @property
    def target_lengths(self) -> NDArray[np.int64]:
        """Tokens of each target, the start or the end included, (N,)."""
        return self.targets.lengths + 1


@dataclass(frozen=True)
class TranslateBatch:
    """Some pairs, sorted by both lengths. No padding: sentences are concatenated."""

    pairs: EncodedPairs
    members: NDArray[np.int64]
    """Which pairs, (B,)."""
    source_lengths: tuple[int, ...]
    """The end included, (B,)."""
    target_lengths: tuple[int, ...]
    """The start or the end included, (B,)."""

    @classmethod
    def of(cls, pairs: EncodedPairs, members: NDArray[np.int64]) -> "TranslateBatch":
        """Return a batch of the pairs ``members``."""
        source_lengths = pairs.sources.lengths[members] + 1
        target_lengths = pairs.targets.lengths[members] + 1
        order = np.lexsort((target_lengths, source_lengths))
        return cls(
            pairs,
            members[order],
            tuple(source_lengths[order].tolist()),
            tuple(target_lengths[order].tolist()),
        )

    @property
    def num_tokens(self) -> int:
        """S + T: what the network computes."""
        return sum(self.source_lengths) + self.num_target_tokens

    @property
    def num_target_tokens(self) -> int:
        """T: what the network predicts."""
        return sum(self.target_lengths)

    def split(self, num_parts: int) -> "list[TranslateBatch]":
        """Split the sorted pairs round robin, so that the parts have nearly the same number of tokens."""
        num_parts = min(num_parts, len(self.members))
        return [
            TranslateBatch(
                self.pairs,
                self.members[part::num_parts],
                self.source_lengths[part::num_parts],
                self.target_lengths[part::num_parts],
            )
            for part in range(num_parts)
        ]

    def source_ids(self) -> NDArray[np.int64]:
        """Return the sources, each with its end, (S,)."""
        return self._with_special(self.pairs.sources, self.source_lengths, self.pairs.end_id, is_first=False)

    def target_ids(self) -> NDArray[np.int64]:
        """Return what the decoder reads: the targets, each with the start before it, (T,)."""
        return self._with_special(self.pairs.targets, self.target_lengths, self.pairs.start_id, is_first=True)

    def labels(self) -> NDArray[np.int64]:
        """Return what the decoder must predict: the targets, each with its end, (T,)."""
        return self._with_special(self.pairs.targets, self.target_lengths, self.pairs.end_id, is_first=False)

    def _with_special(
        self, sentences: Sentences, lengths: tuple[int, ...], special: int, *, is_first: bool
    ) -> NDArray[np.int64]:
        ends = np.cumsum(lengths)
        places = ends - np.array(lengths) if is_first else ends - 1
        ids = np.full(ends[-1], special, dtype=np.int64)
        is_text = np.ones(len(ids), dtype=np.bool_)
        is_text[places] = False
        ids[is_text] = sentences.gathered(self.members)
        return ids


class TranslateObjective:
    """All pairs once per epoch, in batches that fill a budget of source and target tokens."""

    def __init__(self, pairs: EncodedPairs, *, batch_tokens: int, seed: int) -> None:
        longest = int((pairs.source_lengths + pairs.target_lengths).max())
        if longest > batch_tokens:
            raise UserError(
                f"train.batch_tokens={batch_tokens} is less than the {longest} tokens of the longest pair; "
                "raise it, or lower data.max_length"
            )
        self.pairs, self.batch_tokens, self.seed = pairs, batch_tokens, seed
        self.epochs = Epochs(self._planned)

    def batch(self, step: int) -> TranslateBatch:
        """Return the batch of a step, a pure function of it."""
        return TranslateBatch.of(self.pairs, self.epochs.batch(step))

    def _planned(self, epoch: int) -> list[NDArray[np.int64]]:
        """Return the members of each batch of an epoch."""
        order = permutation(len(self.pairs), self.seed, Draw.ORDER, epoch)
        sources, targets = self.pairs.source_lengths[order], self.pairs.target_lengths[order]
        pools = np.cumsum(sources + targets) // (POOL_BATCHES * self.batch_tokens)
        by_length = np.lexsort((targets, sources, pools))
        borders = fill_batches((sources + targets)[by_length].astype(np.int32), self.batch_tokens)
        batches = np.split(order[by_length], borders[1:-1])
        # Shuffled again, or every pool would go from its shortest pairs to its longest.
        return [batches[index] for index in permutation(len(batches), self.seed, Draw.BATCH_ORDER, epoch)]


def encode_pairs(
    pairs: Iterable[SentencePair], tokenizer: SubwordTokenizer, *, max_length: int
) -> EncodedPairs:
    """Encode pairs; leaves out those with a side of more than ``max_length`` tokens, its end included."""
    ids = array("i"), array("i")
    ends = array("q"), array("q")
    num_too_long = 0
    for sources, targets in _encoded_chunks(iter(pairs), tokenizer):
        for pair in zip(sources, targets, strict=True):
            if max(map(len, pair)) >= max_length:
                num_too_long += 1
                continue
            for side in range(2):
                ids[side].extend(pair[side])
                ends[side].append(len(ids[side]))
    if not ends[0]:
        reason = f"all {num_too_long} have more than {max_length} tokens" if num_too_long else "got none"
        raise DataError(f"no sentence pair to learn from: {reason}; give at least one, or raise the length")
    source_text, target_text = (
        Sentences(np.array(ids[side], dtype=np.int32), np.array(ends[side], dtype=np.int64))
        for side in range(2)
    )
    return EncodedPairs(source_text, target_text, tokenizer.pad_id, tokenizer.end_id, num_too_long)


def _encoded_chunks(
    pairs: Iterator[SentencePair], tokenizer: SubwordTokenizer
) -> Iterator[tuple[list[list[int]], list[list[int]]]]:
    while chunk := list(islice(pairs, _CHUNK_PAIRS)):
        yield (
            tokenizer.ids_of_batch([pair.source for pair in chunk]),
            tokenizer.ids_of_batch([pair.target for pair in chunk]),
        )
