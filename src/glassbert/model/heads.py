"""What sits on the encoder: pooler, MLM, NSP, sequence class, token class, span. No loss here.

Legend: B sequences, T tokens, M positions to predict, D hidden size, V vocabulary, C labels.
"""

from torch import Tensor, nn

from glassbert.config import BertConfig
from glassbert.model.block import layer_norm
from glassbert.model.dropout import dropout
from glassbert.model.linear import ACTIVATIONS, Linear
from glassbert.model.tap import Tap, shown


class Pooler(nn.Module):
    """BERT's summary of a sequence: the [CLS] vector through a tanh layer."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size)

    def forward(self, first: Tensor, tap: Tap | None = None) -> Tensor:
        """Map the sequences' first vectors, (B, D), to (B, D)."""
        if tap is None:
            return self.dense(first, activation="tanh")
        return tap("pooled", tap("pooler.dense", self.dense(first)).tanh())


class MaskedLanguageHead(nn.Module):
    """Dense, activation, LayerNorm, then one logit per piece of the vocabulary."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.activation = config.hidden_act
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.norm = layer_norm(config)
        self.decoder = Linear(config.hidden_size, config.vocab_size)

    def features(self, hidden: Tensor, tap: Tap | None = None) -> Tensor:
        """Map the vectors at the wanted positions, (M, D), to what the decoder reads, (M, D)."""
        if tap is None:
            return self.norm(self.dense(hidden, activation=self.activation))
        act = tap("act", ACTIVATIONS[self.activation](tap("dense", self.dense(hidden))))
        return tap("norm", self.norm(act))

    def forward(self, hidden: Tensor, tap: Tap | None = None) -> Tensor:
        """Map the vectors at the wanted positions, (M, D), to logits, (M, V)."""
        return shown(self.decoder(self.features(hidden, tap)), tap, "logits")


class LabelHead(nn.Module):
    """Dropout and one linear layer; over pooled vectors or over every token."""

    def __init__(self, config: BertConfig, num_labels: int) -> None:
        super().__init__()
        probability = config.classifier_dropout
        self.dropout = config.hidden_dropout_prob if probability is None else probability
        self.dense = Linear(config.hidden_size, num_labels)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B or T, D) to logits, (B or T, C)."""
        return self.dense(dropout(x, self.dropout, self.training))
