"""The interface between the engine and what it trains: all that it knows about a task."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn


class Trainable(Protocol):
    """Something the engine can train. Data is a pure function of the step, so a run can resume anywhere."""

    @property
    def module(self) -> nn.Module:
        """Called with a part of a batch; returns sums over it by name: losses, and counts to be shown.

        With a `Tap` as second argument every intermediate is shown, and each loss under its own name.
        """

    @property
    def loss_weights(self) -> Mapping[str, float]:
        """The weight of each loss in the total."""

    @property
    def best_by(self) -> tuple[str, bool]:
        """The evaluation metric that chooses the best weights, and whether higher is better."""

    def batch(self, step: int) -> Any:
        """Return the whole batch of ``step``, the same on every process."""

    def split(self, batch: Any, num_parts: int) -> Sequence[Any]:
        """Split a batch into parts of nearly equal work; into fewer if there are too few examples."""

    def counts(self, batch: Any) -> Mapping[str, int]:
        """Return what each of the module's sums is divided by, and the number of `tokens`."""

    def epoch_of(self, step: int) -> float:
        """Return how many epochs are done before ``step``."""

    def steps_in_epochs(self, num_epochs: float) -> int:
        """Return the number of steps that ``num_epochs`` take."""

    def evaluate(self) -> dict[str, float]:
        """Measure the module on held-out data; empty if there is none."""

    def verdict(self, metrics: Mapping[str, float]) -> str:
        """Return one line on what the metrics mean."""

    def save(self, folder: Path, weights: Mapping[str, Tensor], run: Mapping[str, Any]) -> None:
        """Write a model folder with ``weights``, named as the module's; ``run`` goes into run.json."""

    def read_weights(self, folder: Path) -> Mapping[str, Tensor]:
        """Return the weights of a folder that `save` wrote, named as the module's."""

    def depth_of(self, name: str) -> int:
        """Return the depth of a parameter, 0 for embeddings, for layer-wise learning rates."""

    def blocks(self) -> Sequence[nn.Module]:
        """Return the modules to shard one by one."""

    def flops_per_token(self) -> float:
        """Return the floating-point operations of training on one token."""


@runtime_checkable
class RemembersData(Protocol):
    """A trainable that finds its place in the data faster with what an earlier session learned about it."""

    def data_state(self) -> dict[str, Any]:
        """Return what a checkpoint should keep, as JSON."""

    def restore_data_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `data_state` returned; no result may depend on it."""
