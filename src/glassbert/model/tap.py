"""Taps: how the glass path shows its numbers without anything being stored on a module."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

Sink = Callable[[str, Tensor], Tensor]
"""Receives a name such as `enc.3.attn.q` and the tensor; what it returns is what the model goes on with."""


@dataclass(frozen=True)
class Tap:
    """Names every intermediate of a pass and hands it to a sink.

    A model that is given a tap takes the glass path: the formula as taught, one named step at a time.
    """

    sink: Sink
    prefix: str = ""

    def __call__(self, name: str, value: Tensor) -> Tensor:
        """Pass ``value`` through the sink under its full name."""
        return self.sink(self.prefix + name, value)

    def within(self, scope: str) -> "Tap":
        """Return a tap whose names begin with ``scope``."""
        return Tap(self.sink, f"{self.prefix}{scope}.")


def within(tap: Tap | None, scope: str) -> Tap | None:
    """Return ``tap`` with a longer prefix, or None for the fast path."""
    return tap.within(scope) if tap else None
