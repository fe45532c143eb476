"""The keys and values that a decoder keeps between steps, so that a step computes only its own tokens.

A step feeds W hypotheses of each sequence, which continue hypotheses of the step before. Their keys and
values are appended and never moved: when a beam search drops one hypothesis and follows another twice, only a
small table of who descends from whom changes. The hypotheses of a sequence then share one set of keys, and
their queries meet it in one matrix product.

Sequences whose memories have about the same length share a `Shelf`, where all memories are padded to the
longest. A cache has one shelf or several.

Legend: B sequences, W hypotheses of each, S slots (tokens kept per sequence, over all hypotheses),
K tokens of the longest memory, N heads, H head size, L blocks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

FIRST_CAPACITY = 16
"""Slots at the start; doubled whenever they are used up."""


class Past(NamedTuple):
    """Keys and values that the tokens of one step look at: the tokens so far, or the memory."""

    keys: Tensor
    """(B, N, K, H)"""
    values: Tensor
    """(B, N, K, H)"""
    mask: Tensor | None
    """Added to the scores, (B, 1, W or 1, K): minus infinity where a hypothesis must not look."""
    width: int
    """W: queries of each sequence."""

    @property
    def num_queries(self) -> int:
        return len(self.keys) * self.width


class Cache:
    """Keys and values of a decoder's blocks: of the steps so far, and of the memory."""

    def __init__(self, shelves: Sequence["Shelf"]) -> None:
        """Join shelves; a shelf is removed when all its sequences have left."""
        self.shelves = list(shelves)
        self.num_steps = 0
        self.positions = torch.zeros(0, dtype=torch.int64)
        """Position of each token of the present step, (T,)."""

    @property
    def num_tokens(self) -> list[int]:
        """Tokens of the present step on each shelf."""
        return [shelf.num_sequences * shelf.width for shelf in self.shelves]

    def begin_step(self, width: int, parents: Tensor | None) -> None:
        """Make room for ``width`` more tokens of each sequence.

        Args:
            parents: Which hypothesis of the last step each one continues, (B, W); its own number when None.
        """
        sizes = [shelf.num_sequences for shelf in self.shelves]
        of_shelves = [None] * len(sizes) if parents is None else parents.split(sizes)
        for shelf, of_shelf in zip(self.shelves, of_shelves, strict=True):
            shelf.begin_step(width, of_shelf)
        device = self.shelves[0].own.device
        self.positions = torch.full((sum(self.num_tokens),), self.num_steps, device=device)
        self.num_steps += 1

    def block(self, index: int) -> list["BlockCache"]:
        """Return the parts of one block during the present step, one for each shelf."""
        return [BlockCache(shelf, index) for shelf in self.shelves]

    def leave(self, is_done: Sequence[bool]) -> Tensor:
        """Drop finished sequences; return the old place of each remaining one, (B,)."""
        order: list[Tensor] = []
        first = 0
        for shelf in self.shelves:
            last = first + shelf.num_sequences
            order.append(first + shelf.leave(is_done[first:last]))
            first = last
        self.shelves = [shelf for shelf in self.shelves if shelf.num_sequences]
        return torch.cat(order)


class Shelf:
    """Keys and values of sequences whose memories have about the same length."""

    def __init__(self, memory: Tensor, memory_mask: Tensor | None) -> None:
        """Start before the first step.

        Args:
            memory: Keys and values of the memory, (L, 2, B, N, K, H).
            memory_mask: (B, 1, 1, K), added to the scores; None when all memories have one length.
        """
        num_blocks, _, num_sequences, num_heads, _, head_size = memory.shape
        self.memory, self.memory_mask = memory, memory_mask
        # Slots come first: a step then writes one stretch of memory, and later ones stay untouched.
        self.own = memory.new_empty(num_blocks, 2, FIRST_CAPACITY, num_sequences, num_heads, head_size)
        self.num_sequences = num_sequences
        self.num_slots = 0
        self.width = 1
        self.visible: Tensor | None = None
        """Which slots a hypothesis descends from, bool (B, W, S); None while it is the only one."""
        self.mask: Tensor | None = None
        """The same as numbers to add to the scores, (B, 1, W, S)."""

    def begin_step(self, width: int, parents: Tensor | None) -> None:
        """Make room for ``width`` more tokens of each sequence; see `Cache.begin_step`."""
        if width > 1 or self.visible is not None:
            self.visible = self._descent(width, parents)
            hidden = torch.zeros(self.visible.shape, dtype=self.own.dtype, device=self.own.device)
            self.mask = hidden.masked_fill_(~self.visible, -math.inf)[:, None]
        self.width = width
        self.num_slots += width
        if self.num_slots > self.own.size(2):
            self._grow()

    def leave(self, is_done: Sequence[bool]) -> Tensor:
        """Drop finished sequences; return the old place of each remaining one, (B,).

        The last ones move into the gaps, so that as little as possible is copied.
        """
        num_left = is_done.count(False)
        movers = [place for place in range(num_left, len(is_done)) if not is_done[place]]
        holes = [place for place in range(num_left) if is_done[place]]
        order = torch.arange(num_left, device=self.own.device)
        if num_left == len(is_done):
            return order
        new, old = torch.tensor([holes, movers], dtype=torch.int64, device=self.own.device)
        order[new] = old
        if len(new):
            used = self.own[:, :, : self.num_slots]
            used[:, :, :, new] = used[:, :, :, old]
            self.memory[:, :, new] = self.memory[:, :, old]
        self.num_sequences = num_left
        self.memory = self.memory[:, :, :num_left]
        if self.memory_mask is not None:
            self.memory_mask = self.memory_mask[order]
        if self.visible is not None:
            self.visible = self.visible[order]
        return order

    def _descent(self, width: int, parents: Tensor | None) -> Tensor:
        """Return the visible slots of the next step: those of the parents, and each its own."""
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
        num_blocks, sides, capacity, _, *of_token = self.own.shape
        capacity = max(2 * capacity, self.num_slots)
        larger = self.own.new_empty(num_blocks, sides, capacity, self.num_sequences, *of_token)
        larger[:, :, :num_kept] = self.own[:, :, :num_kept, : self.num_sequences]
        self.own = larger


@dataclass(frozen=True)
class BlockCache:
    """A block's view of a shelf during one step."""

    shelf: Shelf
    index: int

    @property
    def memory(self) -> Past:
        """Keys and values of the memory; padding is masked."""
        keys, values = self.shelf.memory[self.index].unbind(0)
        return Past(keys, values, self.shelf.memory_mask, self.shelf.width)

    def extend(self, keys: Tensor, values: Tensor) -> Past:
        """Append the step's keys and values, (B * W, D) each, and return all so far."""
        shelf = self.shelf
        end, start = shelf.num_slots, shelf.num_slots - shelf.width
        sides = shelf.own[self.index, :, :end, : shelf.num_sequences]  # (2, S, B, N, H)
        for own, new in zip(sides, (keys, values), strict=True):
            own[start:] = new.view(shelf.num_sequences, shelf.width, *own.shape[2:]).transpose(0, 1)
        own_keys, own_values = sides.permute(0, 2, 3, 1, 4)
        return Past(own_keys, own_values, shelf.mask, shelf.width)
