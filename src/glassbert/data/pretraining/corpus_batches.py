"""A corpus as batches of examples, made on demand.

A batch is a pure function of corpus, objective, seed and step. Nothing else is kept, so training can stop and
resume at any step, on any number of processes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from glassbert.data.epochs import Epochs
from glassbert.data.pretraining.batches import Labels, PretrainBatch, fill_batches
from glassbert.data.pretraining.examples import Arrangement, EpochPlan, Examples, plan_epoch
from glassbert.data.pretraining.outline import Outline
from glassbert.data.pretraining.packing import Moment, Packing
from glassbert.data.random import Draw, permutation
from glassbert.errors import DataError, ModelError, UserError
from glassbert.text.vocabulary import Vocabulary

# Files that are measured separately; a corpus of a thousand files does not get a thousand results.
_MAX_SOURCES = 8


class Texts(Protocol):
    """What batches are made from: a `Corpus` on disk, or a `PastedCorpus`. Offsets run through all of it."""

    @property
    def vocab_sha256(self) -> str:
        """Of the vocabulary that made the ids."""

    @property
    def vocab_size(self) -> int:
        """How many pieces it has."""

    @property
    def sentence_ends(self) -> NDArray[np.int64]:
        """Where each sentence ends, in tokens."""

    @property
    def document_ends(self) -> NDArray[np.int64]:
        """Where each document ends, in sentences."""

    @property
    def source_ends(self) -> NDArray[np.int64] | None:
        """Where the documents of each file end, in documents; None if it is not known."""

    @property
    def source_names(self) -> tuple[str, ...]:
        """A name for each file."""

    def tokens(self, start: int, stop: int) -> NDArray[Any]:
        """Return the ids from ``start`` to ``stop``."""

    def word_starts(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return for each of the ids of `tokens` whether a word begins there."""


class ExampleRules(Protocol):
    """What an objective defines about its examples."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def arrangement(self) -> Arrangement:
        """How texts become examples."""

    @property
    def max_length(self) -> int:
        """Tokens of the longest example, [CLS] and [SEP] included."""

    @property
    def short_prob(self) -> float:
        """Share of examples that aim at a random shorter length."""

    def labelled(
        self, ids: NDArray[np.int64], packing: Packing, moment: Moment
    ) -> tuple[NDArray[np.int64], Mapping[str, Labels]]:
        """Return what the model reads, (T,), and what it must predict, by part of the objective."""


@dataclass(frozen=True)
class _Epoch(Sequence["_Members"]):
    """The examples of an epoch, and the batches they are in."""

    number: int
    examples: Examples
    order: NDArray[np.int64]
    """The examples as they are visited."""
    borders: NDArray[np.int64]
    """Of the batches, in `order`."""

    def __len__(self) -> int:
        return len(self.borders) - 1

    def __getitem__(self, batch: int) -> "_Members":  # type: ignore[override]  # slices are never asked for
        """Return the examples of a batch, by length: attention is fast on equal lengths in a row."""
        members = self.order[self.borders[batch] : self.borders[batch + 1]]
        return _Members(self, members[np.argsort(self.examples.lengths[members], kind="stable")])


class _Members(NamedTuple):
    """Those examples of an epoch that are in a batch."""

    epoch: _Epoch
    chosen: NDArray[np.int64]


class CorpusBatches:
    """The batches of a run."""

    def __init__(
        self,
        corpus: Texts,
        rules: ExampleRules,
        *,
        batch_tokens: int,
        seed: int,
        first_step: int = 0,
        first_epoch: int = 0,
    ) -> None:
        """Check that the corpus has such examples.

        Args:
            batch_tokens: Tokens that a batch holds at most, [CLS] and [SEP] included.
            first_step: The step of the run that takes the first batch.
            first_epoch: The number of the first epoch; epochs with the same number are in the same order.
        """
        self.corpus, self.rules, self.batch_tokens, self.seed = corpus, rules, batch_tokens, seed
        self.first_step, self.first_epoch = first_step, first_epoch
        self.epochs = Epochs(self._planned)
        num_specials = 1 + rules.arrangement.num_texts
        _check_lengths(rules.max_length, num_specials, batch_tokens)
        _check_vocabulary(corpus, rules.vocabulary)
        self._room = rules.max_length - num_specials
        self._outline = Outline.from_ends(
            corpus.sentence_ends, corpus.document_ends, room=self._room, source_ends=corpus.source_ends
        )
        if not self._outline.num_sentences:
            raise DataError("the corpus holds no text; build it from files with at least one sentence")
        rules.arrangement.check(self._outline)

    def batch(self, step: int, num_steps: int | None = None) -> PretrainBatch:
        """Return the batch of a step.

        Args:
            num_steps: Steps of the whole run, for objectives that change in its course.
        """
        members = self.epochs.batch(step - self.first_step)
        return self._assembled(members, Moment(self.seed, members.epoch.number, step, num_steps))

    def epoch_of(self, step: int) -> float:
        """Return how many epochs are done before a step."""
        return self.epochs.num_done(step - self.first_step)

    def steps_in_epochs(self, num_epochs: float) -> int:
        """Return the number of steps that ``num_epochs`` take."""
        return self.epochs.steps_in(num_epochs)

    def counts_so_far(self) -> list[int]:
        """Return how many batches each epoch has, for the epochs known so far."""
        return self.epochs.batch_counts

    def restore_counts(self, counts: Sequence[int]) -> None:
        """Put back what `counts_so_far` returned, which saves planning past epochs again."""
        self.epochs.batch_counts = list(counts)

    def sample(self, num_tokens: int) -> Iterator[PretrainBatch]:
        """Yield about ``num_tokens`` tokens of the first epoch, labelled as at the end of a run."""
        epoch = self._planned(0, num_tokens)
        names = self._files_to_measure()
        for index in range(len(epoch)):
            members = epoch[index]
            batch = self._assembled(members, Moment(self.seed, epoch=0, step=1, num_steps=1))
            if names:
                found = self._outline.sources_of(members.epoch.examples.a_starts[members.chosen])
                batch = replace(batch, sources=tuple(names[source] for source in found.tolist()))
            yield batch

    def _files_to_measure(self) -> tuple[str, ...]:
        """Return the names of the files if there are several, but not many; empty otherwise."""
        borders = self._outline.source_borders
        if borders is None or not 1 < np.count_nonzero(np.diff(borders)) <= _MAX_SOURCES:
            return ()
        return self.corpus.source_names

    def _planned(self, number: int, max_tokens: int | None = None) -> _Epoch:
        """Plan an epoch, or the first ``max_tokens`` of it, but at least one example."""
        number += self.first_epoch
        plan = EpochPlan(self._outline, self._room, self.rules.short_prob, self.seed, number)
        examples = plan_epoch(self.rules.arrangement, plan)
        order = permutation(len(examples), self.seed, Draw.ORDER, number)
        lengths = examples.lengths[order]
        if max_tokens is not None:
            num_fitting = int(np.searchsorted(np.cumsum(lengths), max_tokens, side="right"))
            order, lengths = order[: max(1, num_fitting)], lengths[: max(1, num_fitting)]
        return _Epoch(number, examples, order, fill_batches(lengths, self.batch_tokens))

    def _assembled(self, members: _Members, moment: Moment) -> PretrainBatch:
        """Read the examples, set [CLS] and [SEP], and let the objective label them."""
        examples, chosen = members.epoch.examples, members.chosen
        lengths = examples.lengths[chosen]
        ends = np.cumsum(lengths)
        starts = ends - lengths
        a_ends = starts + 1 + examples.a_lengths[chosen]
        is_text = np.ones(ends[-1], dtype=np.bool_)
        is_text[np.concatenate((starts, a_ends, ends - 1))] = False

        ranges = _token_ranges(examples, chosen)
        vocabulary = self.rules.vocabulary
        ids = np.full(len(is_text), vocabulary.sep_id, dtype=np.int64)
        ids[starts] = vocabulary.cls_id
        ids[is_text] = np.concatenate([self.corpus.tokens(start, stop) for start, stop in ranges])

        def word_starts() -> NDArray[np.bool_]:
            # A text that begins within a word joins the [CLS] or [SEP] before it, which is never chosen.
            found = np.ones(len(is_text), dtype=np.bool_)
            found[is_text] = np.concatenate([self.corpus.word_starts(*tokens) for tokens in ranges])
            return found

        owners = np.repeat(np.arange(len(chosen)), lengths)
        pair_labels = examples.pair_labels[chosen].astype(np.int64)
        packing = Packing(starts, owners, chosen, pair_labels, word_starts)
        ids, labels = self.rules.labelled(ids, packing, moment)
        segments = (np.arange(len(is_text)) > a_ends[owners]).astype(np.int64)
        return PretrainBatch(ids, segments, tuple(lengths.tolist()), labels)


def _token_ranges(examples: Examples, members: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return where the texts of some examples lie in the corpus: A, B, A, B, without empty ones."""
    starts = np.stack((examples.a_starts[members], examples.b_starts[members]), axis=1).ravel()
    lengths = np.stack((examples.a_lengths[members], examples.b_lengths[members]), axis=1).ravel()
    is_there = lengths > 0
    return list(zip(starts[is_there].tolist(), (starts + lengths)[is_there].tolist(), strict=True))


def _check_lengths(max_length: int, num_specials: int, batch_tokens: int) -> None:
    if max_length < num_specials + 2:
        raise UserError(f"max_length={max_length} leaves no room; expected at least {num_specials + 2}")
    if batch_tokens < max_length:
        raise UserError(
            f"batch_tokens={batch_tokens} is less than a sequence of max_length={max_length}; "
            f"set it to {max_length} or more, or shorten max_length"
        )


def _check_vocabulary(corpus: Texts, vocabulary: Vocabulary) -> None:
    if corpus.vocab_sha256 != vocabulary.sha256:
        raise ModelError(
            f"the corpus was built with another vocabulary ({corpus.vocab_size:,} pieces) than the "
            f"one given ({len(vocabulary):,} pieces); use the tokenizer in its folder, or build it again"
        )
