"""Tensors by name, each read when it is asked for.

So a model's weights are renamed, checked and converted without all being in memory at once.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class OnDemand(Mapping[str, "Tensor"]):
    """A mapping that holds names alone."""

    names: Collection[str]
    read: "Callable[[str], Tensor]"
    """Returns the tensor of a name; called anew for each use."""

    def __getitem__(self, name: str) -> "Tensor":
        if name not in self.names:
            raise KeyError(name)
        return self.read(name)

    def __contains__(self, name: object) -> bool:
        return name in self.names  # the inherited method would read the tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)
