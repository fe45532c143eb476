"""Masked tokens for new rows of the vocabulary: nothing else is trained, so nothing is forgotten.

Legend: R new rows, V vocabulary, D hidden size.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from glassbert.data.pretraining.batches import PretrainBatch
from glassbert.model.bert import Bert
from glassbert.model.tap import Tap
from glassbert.tasks.objectives.masked import MaskedLanguage
from glassbert.tasks.objectives.parts import Part, PretrainNetwork

TABLE, BIAS, DECODER = (
    "bert.encoder.embeddings.token.weight",
    "bert.mlm.decoder.bias",
    "bert.mlm.decoder.weight",
)


class RowsNetwork(PretrainNetwork):
    """A frozen BERT of which some rows of the token table, and their biases in the MLM head, are trained."""

    def __init__(self, bert: Bert, parts: Sequence[Part], ids: Tensor) -> None:
        """Take the rows ``ids``, (R,), out of a model with an MLM head."""
        super().__init__(bert, parts)
        bert.requires_grad_(False)
        self.ids = ids
        self.rows = nn.Parameter(bert.encoder.embeddings.token.weight.detach()[ids].clone())  # (R, D)
        self.row_bias = nn.Parameter(self.mlm_head.decoder.bias.detach()[ids].clone())  # (R,)
        # In a tuple, so that the weights are this module's alone.
        self._plain = (PretrainNetwork(bert, parts),)

    def forward(self, batch: PretrainBatch, tap: Tap | None = None) -> dict[str, Tensor]:
        """Return the sums of all parts, computed with the rows in their places."""
        sums: dict[str, Tensor] = functional_call(self._plain[0], self._placed(), (batch, tap))
        return sums

    def saved(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights of the BERT alone, with the rows in their places."""
        kept = {name: tensor for name, tensor in weights.items() if name.startswith("bert.")}
        kept[TABLE] = kept[TABLE].index_copy(0, self.ids, weights["rows"])
        kept[BIAS] = kept[BIAS].index_copy(0, self.ids, weights["row_bias"])
        if DECODER in kept and self.bert.config.encoder.tie_word_embeddings:
            kept[DECODER] = kept[TABLE]
        return kept

    def loaded(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return what `saved` was given."""
        own = {"rows": weights[TABLE][self.ids], "row_bias": weights[BIAS][self.ids]}
        return {**weights, **own}

    def _placed(self) -> dict[str, Tensor]:
        table = self.bert.encoder.embeddings.token.weight.index_copy(0, self.ids, self.rows)
        bias = self.mlm_head.decoder.bias.index_copy(0, self.ids, self.row_bias)
        return {TABLE: table, BIAS: bias}


class NewRows(MaskedLanguage):
    """Masked tokens of single texts, for some rows of the vocabulary."""

    ids: Tensor = torch.zeros(0, dtype=torch.int64)
    """Set by the caller: the rows to train, (R,)."""

    def network(self, bert: Bert, *, seed: int) -> PretrainNetwork:
        """Return the network to train; it draws nothing."""
        return RowsNetwork(bert, self.parts, self.ids)
