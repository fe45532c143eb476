"""Recording a pass: each number goes to its place as it is computed, each gradient as it arrives."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial

import torch
from torch import Tensor

from glassbert.errors import ModelError, UserError
from glassbert.glassbox.trace.graph import Step
from glassbert.glassbox.trace.storage import Slot, Store
from glassbert.glassbox.trace.subject import Number, Subject, Weights, no_such_name
from glassbert.model.tap import Tap
from glassbert.sentence import Sentence

GRAD = "grad."
"""Begins the name of a gradient: of a step, or of one of the network's parameters."""


@dataclass(frozen=True)
class Selection:
    """Which of the tensors are kept."""

    names: Collection[str] = ()
    """Patterns such as `enc.*.attn.probs`; none keeps all. A gradient is kept with its step."""
    layers: Collection[int] | None = None
    """Numbers of the blocks to keep; what is outside of blocks is kept as well."""

    def keeps(self, name: str) -> bool:
        """Return whether a tensor is kept."""
        if self.names and not any(_fits(name, pattern) for pattern in self.names):
            return False
        block = _block_of(name.removeprefix(GRAD))
        return self.layers is None or block is None or block in self.layers

    def of(self, slots: Sequence[Slot]) -> tuple[Slot, ...]:
        """Return the places that are kept; refuse patterns and blocks that fit nothing."""
        known = [slot.name for slot in slots]
        for pattern in self.names:
            if not any(_fits(name, pattern) for name in known):
                raise UserError(no_such_name(pattern, known))
        blocks = {block for name in known if (block := _block_of(name)) is not None}
        for layer in self.layers or ():
            if layer not in blocks:
                raise UserError(f"layer {layer}: this model has {len(blocks)} blocks, numbered from 0")
        return tuple(slot for slot in slots if self.keeps(slot.name))


def _fits(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name.removeprefix(GRAD), pattern)


def _block_of(name: str) -> int | None:
    """Return the number of the block that a step or a parameter belongs to."""
    words = name.split(".")
    number = words[1] if words[0] in ("enc", "dec") else words[2] if words[1:2] == ["blocks"] else ""
    return int(number) if number.isdecimal() else None


def planned_slots(subject: Subject, *, grad: bool) -> list[Slot]:
    """Return the place of everything that can be recorded, before the pass."""
    steps = subject.graph.steps
    slots = [Slot(step.name, step.shape, step.is_given) for step in steps]
    if grad:
        slots += [Slot(GRAD + step.name, step.shape) for step in steps if not step.is_given]
        named = subject.weights.named()
        slots += [Slot(GRAD + name, tuple(value.shape)) for name, value in named.items()]
    return slots


@dataclass
class Recorder:
    """The sink of one pass."""

    store: Store
    kept: Collection[str]
    """Names of the tensors to keep."""
    steps: dict[str, Step]
    wanted: Number | None = None
    """What the backward pass starts from; None without one."""
    found: Tensor | None = field(default=None, init=False)
    """Its value."""

    def sink(self, name: str, value: Tensor) -> Tensor:
        """Keep a result, and its gradient later."""
        assert value.shape == self.steps[name].shape, f"{name}: {value.shape} was not planned"
        if not name.endswith(".masked") and not bool(torch.isfinite(value).all()):
            raise ModelError(
                Sentence(
                    "{name} has a number that is NaN or infinite, and all before it were finite; "
                    "check the weights with `glassbert doctor`",
                    name=name,
                )
            )
        if name in self.kept:
            self.store.put(name, value.detach().float().cpu().numpy())
        if self.wanted is not None:
            if not value.requires_grad:
                value.requires_grad_()  # sinusoids: no weight lies behind them
            if GRAD + name in self.kept:
                value.register_hook(self._keeper(GRAD + name))
            if name == self.wanted.name:
                self.found = value[self.wanted.index]
        return value

    def watch(self, weights: Weights) -> None:
        """Keep the gradient of every parameter as soon as it is complete, and free it."""

        def take(name: str, parameter: Tensor) -> None:
            assert parameter.grad is not None
            if name in self.kept:
                self._keeper(name)(parameter.grad)
            parameter.grad = None

        for name, parameter in weights.named().items():
            parameter.register_post_accumulate_grad_hook(partial(take, GRAD + name))

    def _keeper(self, name: str) -> Callable[[Tensor], None]:
        return lambda grad: self.store.put(name, grad.detach().float().cpu().numpy())


def record(subject: Subject, store: Store, slots: Iterable[Slot], *, grad: bool, weights: Weights) -> None:
    """Run a pass, and back if a gradient is wanted.

    Args:
        slots: The tensors to keep.
        weights: A copy of the subject's, on the device and in the precision to compute with.
    """
    steps, kept = {step.name: step for step in subject.graph.steps}, {slot.name for slot in slots}
    wanted = subject.differentiated if grad else None
    recorder = Recorder(store, kept, steps, wanted)
    for step in subject.graph.steps:
        if step.is_given and step.name in kept:
            store.put(step.name, subject.given[step.name].numpy())
    if wanted is None:
        with torch.no_grad():
            subject.run(weights, Tap(recorder.sink))
        return
    recorder.watch(weights)
    try:
        with torch.enable_grad():
            subject.run(weights, Tap(recorder.sink))
            assert recorder.found is not None, f"{wanted.name} was not shown"
            recorder.found.backward()
    finally:
        # The hooks of its graph hold the recorder: a circle that no garbage collector sees.
        recorder.found = None
