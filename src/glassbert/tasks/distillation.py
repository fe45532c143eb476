"""Distillation of vectors: a student learns the states that its teacher has for any text.

Legend: B texts, T tokens, D the student's width, E the teacher's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from glassbert.interop.companions import Companions, write_companions
from glassbert.interop.folder import EncoderFolder, write_model
from glassbert.metrics.regression import pearson, ranks, regression
from glassbert.model.bert import Bert
from glassbert.model.depth import flops_in_blocks
from glassbert.model.init import materialised
from glassbert.model.layout import Layout
from glassbert.model.packed import pack, run
from glassbert.model.pooling import Pooling
from glassbert.model.tap import Tap, shown_losses
from glassbert.tasks.encoder_training import EncoderModule, EncoderTraining
from glassbert.tasks.input_order import InputOrder
from glassbert.tasks.partial_embedding import whole_state
from glassbert.tasks.task import Input
from glassbert.text.wordpiece.tokenizer import Tokenizer

MAX_COMPARED = 500
"""Held-out texts whose similarities, each with each, are compared with the teacher's."""


class DistilModule(EncoderModule):
    """A BERT whose states are compared with its teacher's: what the engine differentiates."""

    def __init__(self, bert: Bert, pooling: Pooling, rows: Tensor, *, has_same_width: bool) -> None:
        """Freeze the heads, which learn nothing here.

        Args:
            rows: Rows of the token embedding that are trained, (R,).
            has_same_width: Whether states can be compared number by number; otherwise only the similarities
                of texts are.
        """
        bert.requires_grad_(False)
        bert.encoder.requires_grad_(True)
        super().__init__(bert, rows)
        self.pooling, self._has_same_width = pooling, has_same_width

    def forward(self, part: Sequence[Input], tap: Tap | None = None) -> dict[str, Tensor]:
        """Return the sums of losses over a part of a batch."""
        batch = pack(part, self.device)
        hidden = self.bert.encoder(batch, tap).float()
        states = np.concatenate([one.taught for one in part if one.taught is not None])
        taught = torch.from_numpy(states).to(self.device)  # (T, E)
        ours, theirs = self.pooling(hidden, batch.layout), self.pooling(taught, batch.layout)
        if self._has_same_width:
            cosine_loss = (1.0 - F.cosine_similarity(ours, theirs)).sum()
            errors = (hidden - taught).square().sum(dim=1) / taught.square().sum(dim=1).clamp_min(1e-12)
            sums = {"cosine_loss": cosine_loss, "states_loss": errors.sum()}
        else:
            sums = {"similarity_loss": _similarity_loss(ours, theirs)}
        return shown_losses(sums, sums, tap)


def _similarity_loss(ours: Tensor, theirs: Tensor) -> Tensor:
    """Return how far the cosines of all pairs of texts, (B, B), are from the teacher's; a sum over texts."""
    mine, right = (F.normalize(one, dim=1) @ F.normalize(one, dim=1).T for one in (ours, theirs))
    return (mine - right).square().sum(dim=1).div(max(1, len(ours) - 1)).sum()


class Distil(EncoderTraining):
    """Distillation of vectors; see `Trainable` for what its members mean."""

    def __init__(
        self,
        bert: Bert,
        tokenizer: Tokenizer,
        pooling: Pooling,
        train: Sequence[Input],
        dev: Sequence[Input],
        *,
        teacher_width: int,
        batch_size: int,
        batch_tokens: int,
        seed: int,
        companions: Companions,
        dropout: Mapping[str, Any],
        pairs: "ScoredPairs | None" = None,
    ) -> None:
        """Take the encoded texts.

        Args:
            dev: Texts that are not trained on; `taught_dev` must hold the teacher's states before the first
                step, and `order.taught` those of ``train``.
            companions: Files of the teacher's folder that say how vectors are pooled.
            dropout: The dropout of the saved config, for later training.
            pairs: Pairs of texts scored by people, to measure on.
        """
        order = InputOrder(
            [[one] for one in train], batch_size=batch_size, batch_tokens=batch_tokens, seed=seed
        )
        super().__init__(bert.config, order)
        self.tokenizer, self.pooling, self.dev, self.pairs = tokenizer, pooling, dev, pairs
        self.taught_dev: Sequence[NDArray[Any]] = ()
        self._companions = companions
        self._saved_config = replace(bert.config, encoder=replace(bert.config.encoder, **dropout))
        self._has_same_width = bert.config.encoder.hidden_size == teacher_width
        self.module = DistilModule(bert, pooling, self._rows, has_same_width=self._has_same_width)

    @property
    def loss_weights(self) -> Mapping[str, float]:
        names = ("cosine_loss", "states_loss") if self._has_same_width else ("similarity_loss",)
        return dict.fromkeys(names, 1.0)

    @property
    def best_by(self) -> tuple[str, bool]:
        # Never by the pairs: their score would be too high if it had chosen the weights.
        return "agreement", True

    def counts(self, batch: list[Input]) -> dict[str, int]:
        tokens = sum(map(len, batch))
        texts = dict.fromkeys(("cosine_loss", "similarity_loss"), len(batch))
        return {**texts, "states_loss": tokens, "tokens": tokens}

    def evaluate(self) -> dict[str, float]:
        vectors = pooled_vectors(self.module.bert, self.dev, self.pooling, self.module.device)
        taught = pooled_states(self.taught_dev, self.pooling)
        found = compared_vectors(vectors, taught)
        if self.pairs is not None:
            of_pairs = pooled_vectors(self.module.bert, self.pairs.inputs, self.pooling, self.module.device)
            found["spearman"] = self.pairs.spearman(of_pairs)
        return found

    def verdict(self, metrics: Mapping[str, float]) -> str:
        return "held out: " + "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())

    def save(self, folder: Path, weights: Mapping[str, Tensor], run: Mapping[str, Any]) -> None:
        network = materialised(Bert, self._saved_config, state=whole_state(weights, self._rows))
        write_model(network, self.tokenizer, folder, run=run)
        write_companions(self._companions, folder, without_models=True)

    def read_weights(self, folder: Path) -> dict[str, Tensor]:
        network, _ = EncoderFolder.open(folder).build()
        module = DistilModule(network, self.pooling, self._rows, has_same_width=self._has_same_width)
        return dict(module.named_parameters())

    def flops_per_token(self) -> float:
        return flops_in_blocks(self.module.bert.encoder.blocks, self._mean_length())


class ScoredPairs:
    """Pairs of texts scored by people."""

    def __init__(self, inputs: Sequence[Input], gold: NDArray[np.float64]) -> None:
        """Take the first texts of all pairs, then the second ones, and the scores."""
        self.inputs, self.gold = inputs, gold

    def spearman(self, vectors: NDArray[np.float32]) -> float:
        """Return how well the cosines of the pairs, (2 x pairs, features), rank them as people did."""
        unit = _unit(vectors)
        first, second = unit[: len(self.gold)], unit[len(self.gold) :]
        return regression(self.gold, (first * second).sum(axis=1)).spearman


def pooled_vectors(
    bert: Bert, inputs: Sequence[Input], pooling: Pooling, device: torch.device | None = None
) -> NDArray[np.float32]:
    """Return the vector of each input, (inputs, features)."""
    was_training = bert.training
    bert.eval()
    found: list[NDArray[np.float32]] = run(
        bert.encoder, inputs, lambda hidden, batch, _: pooling(hidden, batch.layout), device=device
    )
    bert.train(was_training)
    return np.stack(found)


def pooled_states(states: Sequence[NDArray[Any]], pooling: Pooling) -> NDArray[np.float32]:
    """Return the vector of each text from the states of its tokens, (texts, features)."""
    layout = Layout(tuple(map(len, states)))
    packed: NDArray[np.float32] = pooling(torch.from_numpy(np.concatenate(states)), layout).numpy()
    return packed


def compared_vectors(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> dict[str, float]:
    """Return how alike two models' vectors of the same texts are.

    `agreement` is the rank correlation of all similarities, each text with each; `cosine` the mean cosine of
    the two vectors of a text, where both have the same width.
    """
    mine, right = _unit(ours), _unit(theirs)
    rows, columns = np.triu_indices(min(len(mine), MAX_COMPARED), k=1)
    pairs = [(one[rows] * one[columns]).sum(axis=1).astype(np.float64) for one in (mine, right)]
    found = {"agreement": pearson(ranks(pairs[0]), ranks(pairs[1]))}
    if mine.shape == right.shape:
        found["cosine"] = float((mine * right).sum(axis=1).mean())
    return found


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
    return unit
