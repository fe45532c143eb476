"""Masked tokens: predict what was hidden.

Legend: M places of labels, D hidden size.
"""

from collections.abc import Iterable
from typing import ClassVar

from torch import Tensor

from glassbert.data.corpus.reader import Corpus
from glassbert.data.pretraining.baseline import guessing_loss
from glassbert.data.pretraining.batches import Labels
from glassbert.data.pretraining.examples import Singles
from glassbert.data.pretraining.masking import Masker, Masking
from glassbert.data.pretraining.packing import Moment, Packing
from glassbert.model.tap import Tap, within
from glassbert.tasks.objectives.objective import Objective
from glassbert.tasks.objectives.parts import Ids, ObjectiveSettings, Part, PretrainNetwork
from glassbert.tasks.vocabulary_loss import vocabulary_loss
from glassbert.text.vocabulary import Vocabulary


class MaskedTokens(Part):
    """Hide some tokens and predict them with the MLM head."""

    name = "mlm"
    heads: ClassVar[tuple[str, ...]] = ("mlm",)

    def __init__(self, settings: ObjectiveSettings, vocabulary: Vocabulary) -> None:
        super().__init__(settings, vocabulary)
        self._masker = Masker(vocabulary)

    @property
    def share_read(self) -> float:
        """Share of the tokens that are hidden."""
        return self.settings.mask.mean_select_prob

    def masking(self, moment: Moment) -> Masking:
        """Return how to mask at this moment of the run."""
        return self.settings.mask.at(moment)

    def label(self, ids: Ids, packing: Packing, moment: Moment) -> tuple[Ids, Labels | None]:
        """Hide some tokens; the labels are what was there."""
        return self._masker(ids, packing, moment, self.masking(moment))

    def sums(
        self, network: PretrainNetwork, hidden: Tensor, labels: Tensor, tap: Tap | None = None
    ) -> dict[str, Tensor]:
        """Return the loss at the hidden places and how many predictions are right."""
        head = network.mlm_head
        tap, decoder = within(tap, "head.mlm"), head.decoder
        features = head.features(hidden, tap)  # (M, D)
        loss, num_correct = vocabulary_loss(features, decoder.weight, decoder.bias, labels, tap)
        return {"mlm_loss": loss, "mlm_accuracy": num_correct}

    def guessing_loss(self, corpus: Corpus, vocabulary: Vocabulary, labels: Iterable[Labels]) -> float | None:
        """Return the loss of guessing by how often each token occurs in the corpus."""
        return guessing_loss(corpus, vocabulary, (found.values for found in labels))


class MaskedLanguage(Objective):
    """Masked tokens of single texts."""

    arrangement = Singles()
    part_types = (MaskedTokens,)
