"""Pairs of texts: is the pair as it is in the corpus?

Legend: B sequences.
"""

import torch.nn.functional as F
from torch import Tensor

from glassbert.data.pretraining.batches import Labels
from glassbert.data.pretraining.examples import RandomPairs, SwappedPairs
from glassbert.data.pretraining.packing import Moment, Packing
from glassbert.model.tap import Tap, shown, within
from glassbert.tasks.objectives.masked import MaskedTokens
from glassbert.tasks.objectives.objective import Objective
from glassbert.tasks.objectives.parts import Ids, ObjectiveSettings, Part, PretrainNetwork
from glassbert.text.vocabulary import Vocabulary


class PairOrder(Part):
    """Tell from [CLS] whether a pair is as it is in the corpus (0) or flipped (1), with the NSP head."""

    name = "nsp"
    heads = ("nsp",)

    def label(self, ids: Ids, packing: Packing, moment: Moment) -> tuple[Ids, Labels | None]:
        """Return the label that the arrangement of the texts gives each pair."""
        return ids, Labels(packing.pair_labels)

    def sums(
        self, network: PretrainNetwork, hidden: Tensor, labels: Tensor, tap: Tap | None = None
    ) -> dict[str, Tensor]:
        """Return the loss of the pairs and how many are judged right; examples without a pair are ignored."""
        pooler, head = network.bert.pooler, network.bert.nsp
        assert pooler is not None
        assert head is not None
        tap = within(tap, "head")
        logits = shown(head(pooler(hidden, tap)), tap, "nsp.logits")  # (B, 2)
        num_correct = (logits.argmax(dim=-1) == labels).sum()
        return {"nsp_loss": F.cross_entropy(logits, labels, reduction="sum"), "nsp_accuracy": num_correct}


class NextSentence(Objective):
    """Masked tokens, and whether B follows A or is from another document."""

    part_types = (MaskedTokens, PairOrder)

    def __init__(self, settings: ObjectiveSettings, vocabulary: Vocabulary) -> None:
        self.arrangement = RandomPairs(settings.partner)
        super().__init__(settings, vocabulary)


class SentenceOrder(Objective):
    """Masked tokens, and whether A and B are swapped."""

    arrangement = SwappedPairs()
    part_types = (MaskedTokens, PairOrder)
