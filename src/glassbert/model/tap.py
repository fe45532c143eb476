"""Taps: how the glass path shows its numbers without storing anything on a module.

Every name and its shape: docs/glossary.md.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from torch import Tensor

from glassbert.model.layout import Layout

Sink = Callable[[str, Tensor], Tensor]
"""Receives a name such as `enc.3.attn.q` and the tensor; the model continues with what it returns."""
OnLayout = Callable[[str, Layout], None]
"""Receives a prefix of names and the layout of their rows: which belong to which sequence."""


@dataclass(frozen=True)
class Tap:
    """Names every intermediate of a pass and hands it to a sink.

    A model that is given a tap takes the glass path: the formula as taught, one named step at a time.
    """

    sink: Sink
    prefix: str = ""
    on_layout: OnLayout | None = None
    """Called before the numbers of a batch: with "" for all names, with "dec." for those of a decoder."""

    def __call__(self, name: str, value: Tensor) -> Tensor:
        """Pass ``value`` through the sink under its full name."""
        return self.sink(self.prefix + name, value)

    def within(self, scope: str) -> "Tap":
        """Return a tap whose names begin with ``scope``."""
        return replace(self, prefix=f"{self.prefix}{scope}.")

    def show_layout(self, layout: Layout) -> None:
        """Report how the rows of this prefix's tensors are divided into sequences."""
        if self.on_layout:
            self.on_layout(self.prefix, layout)


def within(tap: Tap | None, scope: str) -> Tap | None:
    """Return ``tap`` with a longer prefix, or None for the fast path."""
    return tap.within(scope) if tap else None


def shown(value: Tensor, tap: Tap | None, name: str) -> Tensor:
    """Return ``value``, or what the tap replaces it with."""
    return tap(name, value) if tap else value


def shown_losses(sums: dict[str, Tensor], losses: Iterable[str], tap: Tap | None) -> dict[str, Tensor]:
    """Return the sums of a training module with its ``losses`` passed through the tap, under their names."""
    return {**sums, **{name: tap(name, sums[name]) for name in losses}} if tap else sums
