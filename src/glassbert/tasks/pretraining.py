"""Pre-training: masked tokens, and whether the second text follows the first.

Legend: B sequences, T tokens, M predictions, D hidden size.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassbert.config import ModelConfig
from glassbert.data.pretraining.batches import PretrainBatch
from glassbert.data.pretraining.objective import PretrainObjective
from glassbert.interop.folder import write_model
from glassbert.interop.huggingface import build
from glassbert.interop.stored import read_stored
from glassbert.model.bert import Bert
from glassbert.model.depth import depth_in_bert, flops_in_blocks
from glassbert.model.layout import Batch, Layout
from glassbert.tasks.vocabulary_loss import vocabulary_loss
from glassbert.text.wordpiece.tokenizer import Tokenizer


class PretrainModule(nn.Module):
    """A BERT and its losses: what the engine differentiates."""

    def __init__(self, bert: Bert) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, part: PretrainBatch) -> dict[str, Tensor]:
        """Return the summed losses of a part of a batch and how many predictions are right."""
        assert self.bert.mlm is not None
        device = self.bert.encoder.embeddings.token.weight.device
        layout = Layout(part.lengths)
        ids, segments = _tensor(part.ids, device), _tensor(part.segments, device)
        first, chosen = self.bert.encoder.at(Batch(ids, segments, layout), _tensor(part.predict_at, device))
        features = self.bert.mlm.features(chosen)  # (M, D)
        decoder = self.bert.mlm.decoder
        loss, num_correct = vocabulary_loss(
            features, decoder.weight, decoder.bias, _tensor(part.mlm_labels, device)
        )
        sums = {"mlm_loss": loss, "mlm_accuracy": num_correct}
        if part.pair_labels is not None:
            sums |= self._pair_sums(first, _tensor(part.pair_labels, device))
        return sums

    def _pair_sums(self, first: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Judge the pairs from their [CLS] vectors, (B, D); examples without a pair are ignored."""
        assert self.bert.pooler is not None
        assert self.bert.nsp is not None
        logits = self.bert.nsp(self.bert.pooler(first))  # (B, 2)
        num_correct = (logits.argmax(dim=-1) == labels).sum()
        return {"nsp_loss": F.cross_entropy(logits, labels, reduction="sum"), "nsp_accuracy": num_correct}


class Pretrain:
    """The pre-training task; see `Task` for what its members mean."""

    def __init__(
        self,
        bert: Bert,
        tokenizer: Tokenizer,
        objective: PretrainObjective,
        *,
        held_out: Sequence[PretrainBatch] = (),
        guess: Callable[[], float] | None = None,
    ) -> None:
        """Put the parts together.

        Args:
            held_out: Batches of text that is not trained on, with fixed masks.
            guess: Returns the loss of guessing by frequency alone, which has to be beaten. The whole corpus
                is counted for it, so it is not asked for before it is needed.
        """
        self.module = PretrainModule(bert)
        self.tokenizer, self.objective = tokenizer, objective
        self.held_out = held_out
        self._guess = guess
        self._guessing_loss: float | None = None
        self.best_by = ("mlm_loss", False)
        has_pairs = objective.settings.has_pairs
        self.loss_weights = {"mlm_loss": 1.0, "nsp_loss": 1.0} if has_pairs else {"mlm_loss": 1.0}

    @property
    def config(self) -> ModelConfig:
        """The shape of the model."""
        return self.module.bert.config

    def batch(self, step: int) -> PretrainBatch:
        return self.objective.batch(step)

    def split(self, batch: PretrainBatch, num_parts: int) -> Sequence[PretrainBatch]:
        return batch.split(num_parts)

    def counts(self, batch: PretrainBatch) -> dict[str, int]:
        return {
            "mlm_loss": batch.num_predictions,
            "mlm_accuracy": batch.num_predictions,
            "nsp_loss": batch.num_pairs,
            "nsp_accuracy": batch.num_pairs,
            "tokens": batch.num_real_tokens,
        }

    def epoch_of(self, step: int) -> float:
        return self.objective.epochs.num_done(step)

    def steps_in_epochs(self, num_epochs: float) -> int:
        return self.objective.epochs.steps_in(num_epochs)

    @property
    def guessing_loss(self) -> float | None:
        """The loss of guessing by frequency alone, if it is known how to get it."""
        if self._guessing_loss is None and self._guess is not None:
            self._guessing_loss = self._guess()
        return self._guessing_loss

    def data_state(self) -> dict[str, Any]:
        return {"batch_counts": self.objective.epochs.batch_counts, "guessing_loss": self._guessing_loss}

    def restore_data_state(self, state: Mapping[str, Any]) -> None:
        self.objective.epochs.batch_counts = list(state["batch_counts"])
        self._guessing_loss = state["guessing_loss"]

    def evaluate(self) -> dict[str, float]:
        totals: dict[str, float] = {}
        counts: dict[str, int] = {}
        for batch in self.held_out:
            for name, value in self.module(batch).items():
                totals[name] = totals.get(name, 0.0) + value.item()
                counts[name] = counts.get(name, 0) + self.counts(batch)[name]
        return {name: total / max(1, counts[name]) for name, total in totals.items()}

    def verdict(self, metrics: Mapping[str, float]) -> str:
        values = "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        guessing_loss = self.guessing_loss
        if guessing_loss is None:
            return f"held out: {values}"
        gain = guessing_loss - metrics["mlm_loss"]
        meaning = (
            "better than guessing by frequency: learning" if gain > 0.05 else "no better than guessing yet"
        )
        return f"held out: {values}  (frequency alone gives {guessing_loss:.4f}; {meaning})"

    def save(self, folder: Path, weights: Mapping[str, Tensor], run: Mapping[str, Any]) -> None:
        with torch.device("meta"):
            network = Bert(self.config)
        state = {name.removeprefix("bert."): tensor for name, tensor in weights.items()}
        network.load_state_dict(state, strict=False, assign=True)
        network.tie_weights()
        write_model(network, self.tokenizer, folder, run=run)

    def read_weights(self, folder: Path) -> dict[str, Tensor]:
        network, _ = build(read_stored(folder))
        return dict(PretrainModule(network).named_parameters())

    def depth_of(self, name: str) -> int:
        return depth_in_bert(name, self.config.encoder.num_hidden_layers)

    def blocks(self) -> Sequence[nn.Module]:
        return list(self.module.bert.encoder.blocks)

    def flops_per_token(self) -> float:
        bert, settings = self.module.bert, self.objective.settings
        assert bert.mlm is not None
        share_read = settings.mask.select_prob
        in_head = bert.mlm.dense.weight.numel() + bert.mlm.decoder.weight.numel()
        return flops_in_blocks(bert.encoder, settings.max_length, share_read) + 6.0 * share_read * in_head


def _tensor(array: Any, device: torch.device) -> Tensor:
    return torch.from_numpy(array).to(device)
