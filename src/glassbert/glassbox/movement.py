"""How far training moved each tensor from one saved model to another."""

from dataclasses import dataclass
from pathlib import Path

from glassbert.errors import ModelError
from glassbert.interop.weights import read_shapes, read_weights
from glassbert.progress import each


@dataclass(frozen=True)
class Movement:
    """What happened to one tensor."""

    name: str
    shape: tuple[int, ...]
    size: float
    """The root of the sum of squares before."""
    moved: float
    """The same of the difference."""
    largest: float
    """The largest change of a number, without its sign."""

    @property
    def share(self) -> float:
        """How far it moved, relative to its size; infinite where it was zero before and is not now."""
        if self.size:
            return self.moved / self.size
        return float("inf") if self.moved else 0.0


def movements(before: str | Path, after: str | Path) -> list[Movement]:
    """Return how far each tensor moved between two model folders, in the order of the file."""
    if read_shapes(before) != read_shapes(after):
        raise ModelError(
            f"{Path(before).name} and {Path(after).name} hold tensors of other names or shapes; "
            "compare two models of one run"
        )
    old, new = read_weights(before), read_weights(after)
    found = []
    for name in each(tuple(old)):
        start, change = old[name].double(), new[name].double() - old[name].double()
        largest = float(change.abs().max()) if change.numel() else 0.0
        found.append(Movement(name, tuple(start.shape), float(start.norm()), float(change.norm()), largest))
    return found
