"""What a trace is taken of: a network with its input, the steps to come, and the number to differentiate."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from glassbert.errors import ModelError, UserError
from glassbert.glassbox.trace.graph import Graph
from glassbert.interop.names import nearest
from glassbert.model.tap import Tap
from glassbert.sentence import Sentence

LOSS = "loss"
# A number by its place, such as `head.labels.logits[0, 2]`.
_PLACE = re.compile(r"((?:emb|enc|dec|head)\.[\w.]+)\[([^\[\]]+)\]")


class Weights(nn.Module):
    """A network and the weights that its task has besides."""

    def __init__(self, network: nn.Module, extra: nn.Module | None = None) -> None:
        super().__init__()
        self.network, self.extra = network, extra

    def named(self) -> dict[str, nn.Parameter]:
        """Return the parameters by their names in the network; shared ones once."""
        return {name.removeprefix("network."): value for name, value in self.named_parameters()}


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A text, or a pair of texts, as a network reads it."""

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    segments: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]
    """Characters of its own text that each token covers; (0, 0) for specials."""
    truncated: bool = False
    """Whether the text was longer than what the network reads."""


@dataclass(frozen=True)
class Number:
    """The number whose gradient is wanted: an element of a step."""

    name: str
    index: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.index))}]" if self.index else self.name


@dataclass(frozen=True)
class Subject:
    """A pass to be recorded."""

    weights: Weights
    graph: Graph
    run: Callable[[Weights, Tap], None]
    """Runs weights like ``weights``, which may be a copy of them; all results go through the tap."""
    given: Mapping[str, Tensor]
    """The whole numbers that the model is given, by name."""
    source: Reading
    decoder: Reading | None = None
    """What the decoder of a translator reads."""
    differentiated: Number | None = None
    """Where a backward pass starts; None if nothing is known to be right."""
    target: Any = None
    """What is taken as right, as plain JSON values."""


def is_place(target: object) -> TypeGuard[str]:
    """Return whether ``target`` names a number by its place, such as `enc.out[0, 5]`."""
    return isinstance(target, str) and _PLACE.fullmatch(target) is not None


def chosen_number(target: object, graph: Graph, columns: Mapping[str, Sequence[str]]) -> Number | None:
    """Return the number that ``target`` names by its place, such as `enc.out[0, 5]`; None if it names none.

    Args:
        columns: What the last axis of a step counts, by the name of the axis: a place may say `[0, good]`.
    """
    found = _PLACE.fullmatch(target) if isinstance(target, str) else None
    if found is None:
        return None
    steps = {step.name: step for step in graph.steps if not step.is_given}
    step = steps.get(found[1])
    if step is None:
        raise UserError(f"target={target!r}: {no_such_name(found[1], steps)}")
    words = [word.strip() for word in found[2].split(",")]
    if len(words) != len(step.shape):
        raise UserError(
            f"target={target!r}: {len(words)} indices, but {step.name} has {len(step.shape)} axes: "
            f"{', '.join(step.dims)}; give one for each"
        )
    names: list[list[str]] = [[]] * (len(words) - 1) + [list(columns.get(step.dims[-1], ()))]
    found_at = [_index(*one, target) for one in zip(words, step.shape, step.dims, names, strict=True)]
    return Number(step.name, tuple(found_at))


def _index(word: str, size: int, dim: str, names: list[str], target: object) -> int:
    if word in names:
        return names.index(word)
    try:
        index = int(word)
    except ValueError:
        index = size
    if not -size <= index < size:
        hint = f", or one of {', '.join(names[:8])}" if 0 < len(names) <= 8 else ""
        raise UserError(
            f"target={target!r}: {word!r} is not a place on the axis {dim}, 0 to {size - 1}{hint}"
        )
    return index % size


def no_such_name(name: str, known: Mapping[str, object] | Sequence[str]) -> str:
    """Return the message for a name that a trace does not have."""
    guess = nearest(name, known)
    return f"no step is called {name!r}" + (f"; did you mean {guess}?" if guess else "; see names()")


def refuse_loss(head: str) -> ModelError:
    """Return the error for a target or a gradient that needs a loss, where there is none."""
    return ModelError(
        Sentence(
            "a model with a {head!r} head has no loss; name a number instead, such as target='enc.out[0, 5]'",
            head=head,
        )
    )


def whole(values: Sequence[int]) -> Tensor:
    """Return whole numbers as a tensor, (N,)."""
    return torch.tensor(values, dtype=torch.int64)
