"""Pre-training: an objective, a corpus and a network as the engine trains them."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from glassbert.config import ModelConfig
from glassbert.data.pretraining.batches import PretrainBatch
from glassbert.data.pretraining.phases import Batches
from glassbert.model.bert import Bert
from glassbert.model.depth import depth_of
from glassbert.tasks.objectives.folders import read_network, save_network
from glassbert.tasks.objectives.objective import Objective
from glassbert.text.wordpiece.tokenizer import Tokenizer

NumSteps = Callable[[Callable[[float], int]], int | None]
"""Returns the steps of a run, given how many steps some epochs take; None when the clock ends it."""


class Pretrain:
    """The pre-training task; see `Trainable` for what its members mean."""

    def __init__(
        self,
        bert: Bert,
        tokenizer: Tokenizer,
        objective: Objective,
        batches: Batches,
        *,
        held_out: Sequence[PretrainBatch] = (),
        guess: Callable[[], float | None] | None = None,
        num_steps: NumSteps | None = None,
    ) -> None:
        """Put the parts together.

        Args:
            batches: What is trained on.
            held_out: Batches of text that is not trained on.
            guess: Returns the loss of guessing by frequency, which must be beaten. The whole corpus is
                counted for it, so it is called when it is first needed.
            num_steps: For objectives that change in the course of a run.
        """
        self.module = objective.network(bert, seed=batches.seed)
        self.tokenizer, self.objective, self.batches = tokenizer, objective, batches
        self.held_out = held_out
        self.best_by, self.loss_weights = objective.best_by, objective.loss_weights
        self._guess, self._num_steps = guess, num_steps
        self._guessing_loss: float | None = None

    @property
    def config(self) -> ModelConfig:
        """The shape of the model."""
        return self.module.bert.config

    @cached_property
    def num_steps(self) -> int | None:
        """Steps of the whole run; None when they are not known in advance."""
        return self._num_steps(self.steps_in_epochs) if self._num_steps else None

    def batch(self, step: int) -> PretrainBatch:
        return self.batches.batch(step, self.num_steps)

    def split(self, batch: PretrainBatch, num_parts: int) -> Sequence[PretrainBatch]:
        return batch.split(num_parts)

    def counts(self, batch: PretrainBatch) -> dict[str, int]:
        teaching = self.objective.num_teaching(batch)
        return {**self.objective.counts(batch), "tokens": batch.num_tokens, "teaching_tokens": teaching}

    def epoch_of(self, step: int) -> float:
        return self.batches.epoch_of(step)

    def steps_in_epochs(self, num_epochs: float) -> int:
        return self.batches.steps_in_epochs(num_epochs)

    @property
    def guessing_loss(self) -> float | None:
        """The loss of guessing by frequency alone, if it is known how to get it."""
        if self._guessing_loss is None and self._guess is not None:
            self._guessing_loss = self._guess()
        return self._guessing_loss

    def data_state(self) -> dict[str, Any]:
        return {"batch_counts": self.batches.counts_so_far(), "guessing_loss": self._guessing_loss}

    def restore_data_state(self, state: Mapping[str, Any]) -> None:
        self.batches.restore_counts(state["batch_counts"])
        self._guessing_loss = state["guessing_loss"]

    def evaluate(self) -> dict[str, float]:
        return self.objective.measure(self.module, self.held_out)

    def verdict(self, metrics: Mapping[str, float]) -> str:
        return self.objective.verdict(metrics, self.guessing_loss)

    def save(self, folder: Path, weights: Mapping[str, Tensor], run: Mapping[str, Any]) -> None:
        save_network(self.module, weights, self.tokenizer, folder, run)

    def read_weights(self, folder: Path) -> dict[str, Tensor]:
        return read_network(self.module, folder)

    def depth_of(self, name: str) -> int:
        network = self.module.models().get(name.partition(".")[0], self.module.bert)
        return depth_of(network, self.module.get_parameter(name))

    def blocks(self) -> Sequence[nn.Module]:
        return [block for model in self.module.models().values() for block in model.layers()[1:]]

    def flops_per_token(self) -> float:
        return self.objective.flops_per_token(self.module)
