"""What a decoder keeps between steps, so that a step computes its own tokens only.

A step feeds W hypotheses of each sequence, which continue hypotheses of the step before. Their keys and
values are appended and never moved: when a beam search drops one hypothesis and follows another twice, only a
small table of who descends from whom changes. The hypotheses of a sequence then share one set of keys, and
their queries meet it in one matrix product.

Legend: B sequences, W hypotheses of each, S slots (tokens kept per sequence, over all hypotheses),
K tokens of the longest memory, N heads, H head size, L blocks.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

FIRST_CAPACITY = 16
"""Slots at the start; the room doubles whenever it is used up."""


class Cache:
    """Keys and values of a decoder's blocks: of the steps so far, and of the memory."""

    def __init__(self, memory: Tensor, memory_mask: Tensor | None) -> None:
        """Begin with no step done.

        Args:
            memory: Keys and values of the memory, (L, 2, B, N, K, H).
            memory_mask: (B, 1, 1, K), added to the scores; None when all memories are equally long.
        """
        num_blocks, _, num_sequences, num_heads, _, head_size = memory.shape
        self.memory, self.memory_mask = memory, memory_mask
        self.own = memory.new_empty(num_blocks, 2, num_sequences, num_heads, FIRST_CAPACITY, head_size)
        self.num_sequences = num_sequences
        self.num_slots = 0
        self.num_steps = 0
        self.width = 1
        self.visible: Tensor | None = None
        """Which slots a hypothesis descends from, bool (B, W, S); None while there is one, which sees all."""
        self.mask: Tensor | None = None
        """The same as numbers to add to the scores, (B, 1, W, S)."""
        self.positions = torch.zeros(0, dtype=torch.int64)
        """Position of each token of the present step, (B * W,)."""

    def begin_step(self, width: int, parents: Tensor | None) -> None:
        """Make room for ``width`` more tokens of each sequence.

        Args:
            parents: Which hypothesis of the last step each one continues, (B, W); its own number when None.
        """
        if width > 1 or self.visible is not None:
            self.visible = self._descent(width, parents)
            hidden = torch.zeros(self.visible.shape, dtype=self.own.dtype, device=self.own.device)
            self.mask = hidden.masked_fill_(~self.visible, -math.inf)[:, None]
        self.width = width
        self.num_slots += width
        if self.num_slots > self.own.size(4):
            self._grow()
        self.positions = torch.full((self.num_sequences * width,), self.num_steps, device=self.own.device)
        self.num_steps += 1

    def block(self, index: int) -> "BlockCache":
        """Return the part of one block during the present step."""
        return BlockCache(self, index)

    def keep(self, order: Tensor) -> None:
        """Go on with some of the sequences: the one at place i is that which was at ``order[i]``.

        Only those whose place changes are copied, so put the last ones where others left.
        """
        places = torch.arange(len(order), device=order.device)
        moved = order != places
        new, old = places[moved], order[moved]
        if len(new):
            used = self.own[..., : self.num_slots, :]
            used[:, :, new] = used[:, :, old]
            self.memory[:, :, new] = self.memory[:, :, old]
        self.num_sequences = len(order)
        self.memory = self.memory[:, :, : len(order)]
        if self.memory_mask is not None:
            self.memory_mask = self.memory_mask[order]
        if self.visible is not None:
            self.visible = self.visible[order]

    def _descent(self, width: int, parents: Tensor | None) -> Tensor:
        """Return the visible slots of the coming step: those of the parents, and each its own."""
        device = self.own.device
        seen = self.visible
        if seen is None:
            seen = torch.ones(self.num_sequences, 1, self.num_slots, dtype=torch.bool, device=device)
        if parents is not None:
            seen = seen.gather(1, parents[:, :, None].expand(-1, -1, self.num_slots))
        itself = torch.eye(width, dtype=torch.bool, device=device).expand(self.num_sequences, -1, -1)
        return torch.cat([seen, itself], dim=2)

    def _grow(self) -> None:
        num_kept = self.num_slots - self.width
        *outer, capacity, head_size = self.own[:, :, : self.num_sequences].shape
        larger = self.own.new_empty(*outer, max(2 * capacity, self.num_slots), head_size)
        larger[..., :num_kept, :] = self.own[:, :, : self.num_sequences, :, :num_kept]
        self.own = larger


@dataclass(frozen=True)
class BlockCache:
    """A block's view of the cache during one step."""

    cache: Cache
    index: int

    @property
    def positions(self) -> Tensor:
        """Position of each token of the step, (B * W,)."""
        return self.cache.positions

    @property
    def mask(self) -> Tensor | None:
        """What hides the tokens of other hypotheses, (B, 1, W, S)."""
        return self.cache.mask

    @property
    def memory_mask(self) -> Tensor | None:
        """What hides the filling behind short memories, (B, 1, 1, K)."""
        return self.cache.memory_mask

    @property
    def memory(self) -> tuple[Tensor, Tensor]:
        """Keys and values of the memory, (B, N, K, H) each."""
        keys, values = self.cache.memory[self.index].unbind(0)
        return keys, values

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append the step's keys and values, (B * W, D) each, and return all so far, (B, N, S, H) each."""
        cache = self.cache
        end, start = cache.num_slots, cache.num_slots - cache.width
        own_keys, own_values = cache.own[self.index, :, : cache.num_sequences, :, :end].unbind(0)
        for own, new in ((own_keys, keys), (own_values, values)):
            own[:, :, start:] = new.view(len(own), cache.width, own.size(1), -1).transpose(1, 2)
        return own_keys, own_values
