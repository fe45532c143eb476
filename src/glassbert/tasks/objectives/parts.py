"""Parts of an objective, and the network that computes their losses.

Legend: B sequences, T tokens, M places of labels, D hidden size.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from glassbert.data.corpus.reader import Corpus
from glassbert.data.pretraining.batches import Labels, PretrainBatch
from glassbert.data.pretraining.examples import Partner
from glassbert.data.pretraining.masking import Masking
from glassbert.data.pretraining.packing import Moment, Packing
from glassbert.model.bert import Bert, Encoder
from glassbert.model.heads import MaskedLanguageHead
from glassbert.model.init import initialise
from glassbert.model.layout import Batch, Layout
from glassbert.model.tap import Tap, shown_losses
from glassbert.ranges import Length, Share
from glassbert.text.vocabulary import Vocabulary
from glassbert.typed import check_fields

Ids = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ObjectiveSettings:
    """The `[objective]` table of a recipe. An objective with settings of its own has a subclass."""

    name: str = "mlm+nsp"
    """Masked tokens (mlm), with them whether B follows A (mlm+nsp) or whether the two are swapped (sop), or
    which tokens were replaced by a small generator (rtd); tokens that the encoder does not read (mae); masked
    tokens, and in some batches the next token (mlm+causal)."""
    max_length: Length = 128
    """Tokens of the longest example, [CLS] and [SEP] included."""
    short_prob: Share = 0.1
    """Share of examples that aim at a random shorter length, so that the model meets all lengths."""
    mask: Masking = field(default_factory=Masking)
    """Which tokens are hidden, and how."""
    partner: Partner = "any"
    """Of mlm+nsp: a random B is from any other document, or from another one of the same file. With a file
    for each language, `file` prevents the language from giving the answer away."""

    def __post_init__(self) -> None:
        check_fields(self, "objective")

    def for_evaluation(self) -> Self:
        """Return the settings that held-out text is measured with, the same whatever a run masks."""
        return replace(self, mask=Masking())


class Part(ABC):
    """One thing that an objective learns. Its sums are `NAME_loss` and `NAME_accuracy` by default."""

    name: ClassVar[str]
    """Of its labels and sums."""
    heads: ClassVar[tuple[str, ...]] = ()
    """Which heads of BERT it needs: mlm, nsp."""
    weight: ClassVar[float] = 1.0
    """How much its loss counts in the total."""

    def __init__(self, settings: Any, vocabulary: Vocabulary) -> None:
        """Prepare for a run.

        Args:
            settings: Of the type that the objective names.
        """
        self.settings = settings

    @property
    def share_read(self) -> float:
        """Share of the tokens whose last hidden states it reads, for the cost of a step."""
        return 0.0

    def heads_in(self, network: Any) -> list[nn.Module]:
        """Return the heads that it computes with, for the cost of a step."""
        return [getattr(network.bert, name) for name in self.heads]

    @property
    def loss_weights(self) -> dict[str, float]:
        """How much each of its losses counts in the total."""
        return {f"{self.name}_loss": self.weight}

    @abstractmethod
    def label(self, ids: Ids, packing: Packing, moment: Moment) -> tuple[Ids, Labels | None]:
        """Return the ids as the model reads them, (T,), and the labels; None if this batch has none.

        Must not change ``ids`` in place, and must depend on the arguments only.
        """

    @abstractmethod
    def sums(self, network: Any, hidden: Tensor, labels: Tensor, tap: Tap | None = None) -> dict[str, Tensor]:
        """Return the summed losses, and what else is summed for show.

        Args:
            network: Of the type that the objective names; its `bert` has the heads.
            hidden: Last hidden states where the labels are, (M, D); of [CLS] if they are per example, (B, D).
            labels: (M,) or (B,).
            tap: Receives every intermediate of the heads.
        """

    def counts(self, batch: PretrainBatch) -> dict[str, int]:
        """Return what each of the sums is divided by."""
        return dict.fromkeys((f"{self.name}_loss", f"{self.name}_accuracy"), batch.num_labels(self.name))

    def guessing_loss(self, corpus: Corpus, vocabulary: Vocabulary, labels: Iterable[Labels]) -> float | None:
        """Return the loss of guessing ``labels`` by frequency; None where that says nothing."""
        return None


class PretrainNetwork(nn.Module):
    """A BERT and the losses of an objective: what the engine differentiates.

    A subclass may hold more networks and compute in another way. Those that are a `Bert` are saved as model
    folders of their own; all other weights are kept so that a run can resume.
    """

    def __init__(self, bert: Bert, parts: Sequence[Part]) -> None:
        super().__init__()
        self.bert, self.parts = bert, tuple(parts)

    def forward(self, batch: PretrainBatch, tap: Tap | None = None) -> dict[str, Tensor]:
        """Return the sums of all parts over a batch; a part without labels in it adds nothing."""
        labels = [batch.labels.get(part.name) for part in self.parts]
        places = [found.places for found in labels if found is not None]
        states = states_at(self.bert.encoder, batch, places, tap)
        sums: dict[str, Tensor] = {}
        for part, found in zip(self.parts, labels, strict=True):
            if found is None:
                sums |= {name: torch.zeros((), dtype=torch.float32) for name in part.counts(batch)}
            else:
                hidden = states.pop(0)
                own = part.sums(self, hidden, torch.from_numpy(found.values).to(hidden.device), tap)
                sums |= shown_losses(own, part.loss_weights, tap)
        return sums

    @property
    def mlm_head(self) -> MaskedLanguageHead:
        """The head that predicts hidden tokens."""
        assert self.bert.mlm is not None
        return self.bert.mlm

    clipped_apart: ClassVar[tuple[str, ...]] = ()
    """How the names of weights begin whose gradients are clipped by themselves."""

    def saved(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights as they are saved; a network with tables in parts puts them together."""
        return dict(weights)

    def loaded(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return what `saved` was given."""
        return dict(weights)

    def models(self) -> dict[str, Bert]:
        """Return the models among the networks that are trained, by name; `bert` is the one to keep."""
        return {name: child for name, child in self.named_children() if isinstance(child, Bert)}


def spare_head(bert: Bert, generator: torch.Generator) -> MaskedLanguageHead:
    """Return a fresh head over the token table of ``bert``, for predictions that are not kept."""
    head = MaskedLanguageHead(bert.config.encoder)
    initialise(head, bert.config.encoder.initializer_range, generator)
    head.decoder.weight = bert.encoder.embeddings.token.weight
    return head


def zero_with_gradients(modules: Iterable[nn.Module], like: Tensor) -> Tensor:
    """Return a zero that gives every weight of ``modules`` a gradient of zero.

    With several processes, each waits for a gradient of every weight, also in a batch that does not use it.
    """
    return sum((p.sum() * 0.0 for part in modules for p in part.parameters()), like.new_zeros(()))


def states_at(
    encoder: Encoder, batch: PretrainBatch, places: Sequence[Ids | None], tap: Tap | None = None
) -> list[Tensor]:
    """Return the last hidden states at each of ``places``, (M, D); of [CLS], (B, D), where it is None.

    The last block computes no other states.
    """
    device = encoder.embeddings.token.weight.device
    ids, segments = torch.from_numpy(batch.ids).to(device), torch.from_numpy(batch.segments).to(device)
    layout = Layout(batch.lengths)
    asked = [layout.starts.to(device)]
    asked += [torch.from_numpy(found).to(device) for found in places if found is not None]
    read, where = torch.unique(torch.cat(asked), return_inverse=True)
    hidden = encoder(Batch(ids, segments, layout), tap, read)
    first, *others = (hidden[index] for index in where.split([len(found) for found in asked]))
    return [first if found is None else others.pop(0) for found in places]
