"""Packing: a batch is one flat run of real tokens plus the lengths of its sequences.

Legend: B sequences, T tokens in all, L tokens of the longest, D features.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import torch
from torch import Tensor

from glassbert.errors import UserError

# Cached tensors may meet autograd later, even if they are first computed in inference mode.
_outside_inference_mode = torch.inference_mode(False)


@dataclass(frozen=True)
class EqualLengths:
    """Consecutive sequences of one shape: the unit that attention computes densely."""

    num_sequences: int
    length: int
    """Tokens of each query sequence."""
    memory_length: int
    """Tokens of each key and value sequence; equal to `length` in self-attention."""


@dataclass(frozen=True)
class Layout:
    """Where each sequence of a packed batch begins and ends."""

    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.lengths:
            raise UserError("a batch of no sequences; expected at least one")
        if min(self.lengths) < 1:
            # Attention over nothing is undefined, as is the softmax of an empty row.
            raise UserError(f"sequence {self.lengths.index(min(self.lengths))} of the batch has no tokens")

    @property
    def num_tokens(self) -> int:
        """Tokens in all sequences together."""
        return sum(self.lengths)

    @property
    def max_length(self) -> int:
        """Tokens of the longest sequence."""
        return max(self.lengths)

    @cached_property
    @_outside_inference_mode
    def positions(self) -> Tensor:
        """Return each token's position in its own sequence, (T,)."""
        return torch.arange(self.num_tokens) - self._for_each_token(self.starts)

    @cached_property
    @_outside_inference_mode
    def starts(self) -> Tensor:
        """Return the index of each sequence's first token, (B,)."""
        ends = torch.tensor(self.lengths).cumsum(0)
        return ends - torch.tensor(self.lengths)

    @cached_property
    @_outside_inference_mode
    def owners(self) -> Tensor:
        """Return the sequence each token belongs to, (T,)."""
        return self._for_each_token(torch.arange(len(self.lengths)))

    def runs(self, memory: "Layout | None" = None) -> list[EqualLengths]:
        """Return the runs of consecutive equal shapes: sort a batch by length to make them few."""
        memory = memory or self
        if len(memory.lengths) != len(self.lengths):
            raise UserError(f"{len(self.lengths)} sequences cannot attend to {len(memory.lengths)} memories")
        shapes = zip(self.lengths, memory.lengths, strict=True)
        return [EqualLengths(len(list(group)), *shape) for shape, group in groupby(shapes)]

    def select(self, index: Tensor) -> "SomeTokens":
        """Return the layout of some tokens, (M,), in order and at least one of each sequence."""
        counts = torch.bincount(self.owners[index.cpu()], minlength=len(self.lengths))
        return SomeTokens(tuple(counts.tolist()), index, self)

    def split(self, packed: Tensor) -> tuple[Tensor, ...]:
        """Return views of ``packed``, (T, ...), one per sequence."""
        return packed.split(self.lengths)

    def _for_each_token(self, values: Tensor) -> Tensor:
        """Repeat a value of each sequence, (B,), for each of its tokens, (T,)."""
        return values.repeat_interleave(torch.tensor(self.lengths), output_size=self.num_tokens)


@dataclass(frozen=True)
class SomeTokens(Layout):
    """Some tokens of a packed batch; they keep their positions in their sequences."""

    index: Tensor
    """Their indices in the whole batch, (M,)."""
    whole: Layout

    @cached_property
    @_outside_inference_mode
    def positions(self) -> Tensor:
        """Return each token's position in its own sequence, (M,)."""
        return self.whole.positions[self.index.cpu()]


@dataclass(frozen=True)
class Batch:
    """Packed model input."""

    ids: Tensor
    """Token ids, (T,)."""
    segments: Tensor
    """0 for the first text, 1 for the second, (T,)."""
    layout: Layout

    def __post_init__(self) -> None:
        for name, value in (("ids", self.ids), ("segments", self.segments)):
            if value.shape != (self.layout.num_tokens,):
                raise UserError(
                    f"{name} of shape {tuple(value.shape)}; the lengths add up to {self.layout.num_tokens}"
                )

    def to(self, device: torch.device) -> "Batch":
        """Return this batch on ``device``."""
        if self.ids.device == device:
            return self
        return Batch(self.ids.to(device), self.segments.to(device), self.layout)

    @classmethod
    def from_lists(
        cls, ids: Sequence[Sequence[int]], segments: Iterable[Sequence[int]] | None = None
    ) -> "Batch":
        """Pack one list of ids per sequence; all tokens are in segment 0 by default."""
        layout = Layout(tuple(len(sequence) for sequence in ids))
        flat = torch.tensor([token for sequence in ids for token in sequence])
        if segments is None:
            return cls(flat, torch.zeros_like(flat), layout)
        return cls(flat, torch.tensor([segment for sequence in segments for segment in sequence]), layout)

    @classmethod
    def from_padded(cls, ids: Tensor, mask: Tensor | None = None, segments: Tensor | None = None) -> "Batch":
        """Pack (B, L) input. ``mask`` is True, or 1, on real tokens, which must come before any padding."""
        if ids.dim() != 2:
            raise UserError(f"ids of shape {tuple(ids.shape)}; expected (sequences, length)")
        visible = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
        segments = torch.zeros_like(ids) if segments is None else segments
        if visible.shape != ids.shape or segments.shape != ids.shape:
            raise UserError(
                f"ids {tuple(ids.shape)}, mask {tuple(visible.shape)}, segments {tuple(segments.shape)}: "
                "expected one shape for all"
            )
        lengths = visible.sum(dim=1)
        right_padded = torch.arange(ids.size(1), device=ids.device) < lengths[:, None]
        if not torch.equal(visible, right_padded):
            row = int((visible != right_padded).any(dim=1).nonzero()[0])
            raise UserError(f"row {row} of the mask hides a token before a visible one; pad on the right")
        return cls(ids[visible], segments[visible], Layout(tuple(lengths.tolist())))


def unpack(packed: Tensor, layout: Layout) -> Tensor:
    """Return ``packed``, (T, ...), as (B, L, ...) with zeros where there is no token."""
    return torch.nn.utils.rnn.pad_sequence(list(layout.split(packed)), batch_first=True)
