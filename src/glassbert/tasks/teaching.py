"""What a student learns from its teacher: the teacher's logits, softened, beside the labels.

Legend: N logits of an input, C labels.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from glassbert.model.bert import Output
from glassbert.tasks.task import Contest, Input, Task

TAUGHT = "taught_loss"


@dataclass(frozen=True, kw_only=True)
class Teaching:
    """How much of the loss is the teacher's, and how soft its answers are made."""

    temperature: float = 2.0
    """What the logits of both are divided by; the loss is multiplied by its square."""
    gold_weight: float = 0.3
    """The part of the loss that labels have; the teacher has the rest."""

    def loss_weights(self, task: Task[Any, Any]) -> Mapping[str, float]:
        """Return the weight of each loss in the total."""
        of_task = {name: self.gold_weight * weight for name, weight in task.loss_weights.items()}
        return {**of_task, TAUGHT: 1.0 - self.gold_weight}

    def losses(
        self, task: Task[Any, Any], output: Output, inputs: Sequence[Input], *, are_labelled: bool
    ) -> dict[str, Tensor]:
        """Return the sums over ``inputs``, which are all labelled or none of them."""
        loss = self.taught_loss(task.logits(output, inputs), inputs, task.contest)
        nothing = {name: loss.new_zeros(()) for name in task.loss_weights}
        return {**(task.losses(output, inputs) if are_labelled else nothing), TAUGHT: loss}

    def taught_loss(self, logits: Sequence[Tensor], inputs: Iterable[Input], contest: Contest) -> Tensor:
        """Return how far the student's logits are from those of the teacher, summed over the inputs."""
        taught = [torch.from_numpy(one.taught).to(logits[0]) for one in inputs if one.taught is not None]
        if contest == "places":
            parts = [
                self._distance(ours.T, theirs.T, contest) / 2
                for ours, theirs in zip(logits, taught, strict=True)
            ]
            return torch.stack(parts).sum()
        width = logits[0].shape[-1]
        ours, theirs = (torch.cat([one.reshape(-1, width) for one in side]) for side in (logits, taught))
        return self._distance(ours, theirs, contest)

    def _distance(self, ours: Tensor, theirs: Tensor, contest: Contest) -> Tensor:
        """Return the summed distance of rows of logits, (N, C)."""
        if contest == "number":
            return (ours - theirs).square().sum()
        ours, theirs = ours / self.temperature, theirs / self.temperature
        scale = self.temperature**2
        if contest == "each":
            wanted = theirs.sigmoid()
            lost = F.binary_cross_entropy_with_logits(ours, wanted, reduction="none")
            lost = lost - F.binary_cross_entropy_with_logits(theirs, wanted, reduction="none")
            return scale * lost.mean(dim=-1).sum()
        mine, right = ours.log_softmax(dim=-1), theirs.log_softmax(dim=-1)
        return scale * F.kl_div(mine, right, reduction="sum", log_target=True)


def num_taught(inputs: Iterable[Input], contest: Contest) -> int:
    """Return how many decisions a teacher makes for ``inputs``: one for each row of logits, or each text."""
    rows = [one.taught for one in inputs if one.taught is not None]
    return sum(len(one) if one.ndim > 1 and contest == "labels" else 1 for one in rows)
