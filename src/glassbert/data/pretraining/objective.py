"""Objectives: a corpus as batches of examples, made when they are asked for.

A batch is a pure function of settings, seed and step. Nothing else is kept, so training can stop and go on at
any step, on any number of processes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassbert.data.corpus.shards import Corpus
from glassbert.data.epochs import Epochs
from glassbert.data.pretraining.batches import PretrainBatch, fill_batches
from glassbert.data.pretraining.examples import Examples, plan_epoch
from glassbert.data.pretraining.masking import Masker, Masking, Packing
from glassbert.data.pretraining.outline import Outline
from glassbert.data.pretraining.settings import ObjectiveSettings
from glassbert.data.random import Draw, permutation
from glassbert.errors import DataError, ModelError
from glassbert.text.vocabulary import Vocabulary

EVALUATION_SEED = 20_180_404
"""Held-out text is masked alike in every run, or their losses could not be compared."""

STANDARD_MASKING = Masking()


@dataclass(frozen=True)
class _Epoch(Sequence["_Members"]):
    """The examples of an epoch, and in which batches they come."""

    number: int
    examples: Examples
    order: NDArray[np.int64]
    """The examples as they are visited."""
    borders: NDArray[np.int64]
    """Of the batches, in `order`."""

    def __len__(self) -> int:
        return len(self.borders) - 1

    def __getitem__(self, batch: int) -> "_Members":  # type: ignore[override]  # nobody asks for slices
        """Return the examples of a batch, by length: equal lengths in a row are what attention is fast on."""
        members = self.order[self.borders[batch] : self.borders[batch + 1]]
        return _Members(self, members[np.argsort(self.examples.lengths[members], kind="stable")])


class _Members(NamedTuple):
    """Those examples of an epoch that are in a batch."""

    epoch: _Epoch
    chosen: NDArray[np.int64]


class PretrainObjective:
    """Masked tokens, alone or with pairs of texts."""

    def __init__(
        self,
        corpus: Corpus,
        vocabulary: Vocabulary,
        settings: ObjectiveSettings,
    ) -> None:
        """Check that the corpus can be used."""
        self.settings = settings
        self._corpus = corpus
        self._vocabulary = vocabulary
        self._masker = Masker(settings.mask, vocabulary)
        self.epochs = Epochs(self._planned)
        _check_vocabulary(corpus, vocabulary)
        self._outline = Outline.from_ends(corpus.sentence_ends, corpus.document_ends, room=settings.room)
        _check_outline(self._outline, settings)

    def batch(self, step: int) -> PretrainBatch:
        """Return the batch of a step."""
        return self._assembled(*self.epochs.batch(step))

    def evaluation_batches(
        self, num_tokens: int, mask: Masking = STANDARD_MASKING
    ) -> Iterator[PretrainBatch]:
        """Yield about ``num_tokens`` tokens, the same in each run whatever its seed, masks and batch size."""
        fixed = PretrainObjective(
            self._corpus, self._vocabulary, replace(self.settings, seed=EVALUATION_SEED, mask=mask)
        )
        epoch = fixed._planned(0, num_tokens)
        for index in range(len(epoch)):
            yield fixed._assembled(*epoch[index])

    def _planned(self, number: int, max_tokens: int | None = None) -> _Epoch:
        """Plan an epoch, or the first ``max_tokens`` of it, but at least one example."""
        examples = plan_epoch(self._outline, self.settings, number)
        order = permutation(len(examples), self.settings.seed, Draw.ORDER, number)
        lengths = examples.lengths[order]
        if max_tokens is not None:
            num_fitting = int(np.searchsorted(np.cumsum(lengths), max_tokens, side="right"))
            order, lengths = order[: max(1, num_fitting)], lengths[: max(1, num_fitting)]
        return _Epoch(number, examples, order, fill_batches(lengths, self.settings.batch_tokens))

    def _assembled(self, epoch: _Epoch, members: NDArray[np.int64]) -> PretrainBatch:
        """Read the examples ``members``, set [CLS] and [SEP], and mask."""
        examples = epoch.examples
        lengths = examples.lengths[members]
        ends = np.cumsum(lengths)
        starts = ends - lengths
        a_ends = starts + 1 + examples.a_lengths[members]
        is_text = np.ones(ends[-1], dtype=np.bool_)
        is_text[np.concatenate((starts, a_ends, ends - 1))] = False

        runs = _runs(examples, members)
        ids = np.full(len(is_text), self._vocabulary.sep_id, dtype=np.int64)
        ids[starts] = self._vocabulary.cls_id
        ids[is_text] = np.concatenate([self._corpus.tokens(start, stop) for start, stop in runs])
        word_starts = None
        if self.settings.mask.whole_words:
            word_starts = np.ones(len(is_text), dtype=np.bool_)
            # A run that begins within a word joins the [CLS] or [SEP] before it, which is never chosen.
            word_starts[is_text] = np.concatenate([self._corpus.word_starts(*run) for run in runs])
        owners = np.repeat(np.arange(len(members)), lengths)
        packing = Packing(starts, owners, members, word_starts)
        masked = self._masker(ids, packing, self.settings.seed, epoch.number)
        return PretrainBatch(
            ids=masked.ids,
            segments=(np.arange(len(ids)) > a_ends[owners]).astype(np.int64),
            lengths=tuple(lengths.tolist()),
            predict_at=masked.predict_at,
            mlm_labels=masked.labels,
            pair_labels=examples.labels[members].astype(np.int64) if self.settings.has_pairs else None,
        )


def _runs(examples: Examples, members: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return where the texts of some examples lie in the corpus: A, B, A, B, without those that are empty."""
    starts = np.stack((examples.a_starts[members], examples.b_starts[members]), axis=1).ravel()
    lengths = np.stack((examples.a_lengths[members], examples.b_lengths[members]), axis=1).ravel()
    is_there = lengths > 0
    return list(zip(starts[is_there].tolist(), (starts + lengths)[is_there].tolist(), strict=True))


def _check_vocabulary(corpus: Corpus, vocabulary: Vocabulary) -> None:
    if corpus.manifest.vocab_sha256 != vocabulary.sha256:
        raise ModelError(
            f"the corpus was built with another vocabulary ({corpus.manifest.vocab_size:,} pieces) than the "
            f"one given ({len(vocabulary):,} pieces); use the tokenizer in its folder, or build it again"
        )


def _check_outline(outline: Outline, settings: ObjectiveSettings) -> None:
    """Refuse a corpus that has no examples of the kind that is asked for."""
    if not outline.num_sentences:
        raise DataError("the corpus holds no text; build it from files with at least one sentence")
    if settings.objective == "mlm+nsp" and outline.num_documents == 1:
        raise DataError(
            "the corpus is one document, so no text is from another as objective mlm+nsp needs it; put blank "
            "lines between documents and build it again, or set objective to mlm or sop"
        )
    if settings.has_pairs and int(np.diff(outline.document_borders).max()) == 1:
        raise DataError(
            "every document of the corpus is one sentence, so none has a next one as objective "
            f"{settings.objective} needs it; give longer documents, or set objective to mlm"
        )
