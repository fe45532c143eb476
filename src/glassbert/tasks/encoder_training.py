"""The base of fine-tuning and distillation: a BERT is trained on inputs that were encoded in advance.

Legend: R rows of the vocabulary that the training text uses.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from glassbert.config import ModelConfig
from glassbert.model.bert import Bert
from glassbert.model.depth import depth_of
from glassbert.tasks.input_order import InputOrder
from glassbert.tasks.partial_embedding import PartlyTrainedEmbedding, used_rows
from glassbert.tasks.task import Input


class EncoderModule(nn.Module):
    """A BERT of whose token embedding only some rows are trained; a subclass computes the losses."""

    def __init__(self, bert: Bert, rows: Tensor | None) -> None:
        """Take the network.

        Args:
            rows: Rows of the token embedding that are trained, (R,); None leaves the embedding as it is.
        """
        super().__init__()
        self.bert = bert
        if rows is not None:
            embeddings = bert.encoder.embeddings
            setattr(embeddings, "token", PartlyTrainedEmbedding(embeddings.token.weight, rows))  # noqa: B010

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.bert.encoder.embeddings.token.weight.device


class EncoderTraining:
    """What follows from the network and the order of the inputs; see `Trainable` for what members mean."""

    module: EncoderModule

    def __init__(self, config: ModelConfig, order: InputOrder) -> None:
        self.config, self.order = config, order
        self._rows = used_rows((one.ids for one in order.flat()), config.encoder.vocab_size)

    def batch(self, step: int) -> list[Input]:
        return self.order.batch(step)

    def split(self, batch: list[Input], num_parts: int) -> list[list[Input]]:
        return self.order.split(batch, num_parts)

    def epoch_of(self, step: int) -> float:
        return self.order.epochs.num_done(step)

    def steps_in_epochs(self, num_epochs: float) -> int:
        return self.order.epochs.steps_in(num_epochs)

    def depth_of(self, name: str) -> int:
        return depth_of(self.module.bert, self.module.get_parameter(name))

    def blocks(self) -> Sequence[nn.Module]:
        return self.module.bert.layers()[1:]

    def _mean_length(self) -> float:
        """Return the mean number of tokens of an input."""
        return float(np.mean([len(one) for one in self.order.flat()]))
