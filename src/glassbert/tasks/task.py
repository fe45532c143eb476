"""The protocol that every task follows; the engine knows nothing else of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from glassbert.model.bert import Encoder


class Task(Protocol):
    """Something the engine can train. Data is a pure function of the step, so a run can go on anywhere."""

    @property
    def module(self) -> nn.Module:
        """Called with a part of a batch; returns sums over it by name: losses, and counts to be shown."""

    @property
    def loss_weights(self) -> Mapping[str, float]:
        """How much each loss counts in the total."""

    @property
    def best_by(self) -> tuple[str, bool]:
        """The evaluation metric that tells the best checkpoint, and whether higher is better."""

    def batch(self, step: int) -> Any:
        """Return the whole batch of ``step``, the same on every process."""

    def split(self, batch: Any, num_parts: int) -> Sequence[Any]:
        """Divide a batch into parts of nearly equal work; fewer when there are too few examples."""

    def counts(self, batch: Any) -> Mapping[str, int]:
        """Return what each of the module's sums is divided by, and the number of `tokens`."""

    def epoch_of(self, step: int) -> float:
        """Return how many epochs are done before ``step``."""

    def steps_in_epochs(self, num_epochs: float) -> int:
        """Return the number of steps that ``num_epochs`` take."""

    def evaluate(self) -> dict[str, float]:
        """Measure the module on held-out data; no entry when there is none."""

    def verdict(self, metrics: Mapping[str, float]) -> str:
        """Say in one line what the metrics mean."""

    def save(self, folder: Path, weights: Mapping[str, Tensor], run: Mapping[str, Any]) -> None:
        """Write a model folder with ``weights``, named as the module's; ``run`` goes into run.json."""

    def read_weights(self, folder: Path) -> Mapping[str, Tensor]:
        """Return the weights of a folder that `save` wrote, named as the module's."""

    def depth_of(self, name: str) -> int:
        """Return how deep a parameter lies, 0 for embeddings, for layer-wise learning rates."""

    def blocks(self) -> Sequence[nn.Module]:
        """Return the modules that are sharded one by one."""

    def flops_per_token(self) -> float:
        """Return the operations of training on one token, for the share of the machine's peak."""


def depth_in_bert(name: str, num_blocks: int) -> int:
    """Return how deep a parameter of a module that holds a BERT lies: embeddings, blocks, heads."""
    if ".encoder.embeddings." in name:
        return 0
    if ".encoder.blocks." in name:
        return 1 + int(name.split(".encoder.blocks.")[1].split(".")[0])
    return 1 + num_blocks


def flops_in_blocks(encoder: Encoder, length: float, share_read: float = 1.0) -> float:
    """Return the operations of training a BERT's blocks on one token of a sequence of ``length``.

    Args:
        share_read: Part of the tokens that a head reads; of the others, the last block computes nothing but
            keys and values.
    """
    width = encoder.embeddings.norm.normalized_shape[0]
    in_all = sum(p.numel() for p in encoder.blocks.parameters() if p.dim() > 1)
    in_last = sum(p.numel() for p in encoder.blocks[-1].parameters() if p.dim() > 1)
    unread = in_last - 2 * width**2
    in_scores = 2 * length * width * (len(encoder.blocks) - (1 - share_read))
    # Two operations a number going forward, twice that going back.
    return 6.0 * (in_all - (1 - share_read) * unread + in_scores)


@runtime_checkable
class RemembersData(Protocol):
    """A task that finds its place in the data faster with what an earlier session learned about it."""

    def data_state(self) -> dict[str, Any]:
        """Return what a checkpoint shall keep, as JSON has it."""

    def restore_data_state(self, state: Mapping[str, Any]) -> None:
        """Take back what `data_state` returned; nothing that is computed may depend on it."""
