"""A shallower network: some blocks of another, and how to choose them before training."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from math import comb

from glassbert.errors import UserError
from glassbert.model.bert import Bert
from glassbert.model.init import materialised

MAX_CHOICES = 60
"""Up to this many choices all are tried; beyond it, blocks are dropped one by one, the least needed first."""
_BLOCKS = "encoder.blocks."

Cost = Callable[[tuple[int, ...]], float]
"""The loss of a choice of blocks; lower is better."""


def with_blocks(network: Bert, keep: Sequence[int]) -> Bert:
    """Return a network with the blocks ``keep`` of another, in this order, and a copy of the rest."""
    shape = network.config.encoder
    config = replace(network.config, encoder=replace(shape, num_hidden_layers=len(keep)))
    state = {}
    for name, tensor in network.state_dict().items():
        if not name.startswith(_BLOCKS):
            state[name] = tensor.clone()
            continue
        number, _, rest = name.removeprefix(_BLOCKS).partition(".")
        for new, old in enumerate(keep):
            if int(number) == old:
                state[f"{_BLOCKS}{new}.{rest}"] = tensor.clone()
    return materialised(Bert, config, state=state)


def parsed_keep(text: str, num_blocks: int) -> tuple[int, ...]:
    """Return the blocks that a text such as `0,2,5` names, counted from 0."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        raise UserError(f"keep={text[:40]!r}; expected auto, or blocks counted from 0, such as 0,2,5")
    keep = tuple(map(int, parts))
    if any(block >= num_blocks for block in keep):
        raise UserError(
            f"keep={text[:40]}: the teacher has {num_blocks} blocks, 0 to {num_blocks - 1}; name some of them"
        )
    if list(keep) != sorted(set(keep)):
        raise UserError(f"keep={text[:40]}: each block once, in ascending order, such as 0,2,5")
    if keep[-1] != num_blocks - 1:
        raise UserError(
            f"keep={text[:40]}: the last block, {num_blocks - 1}, is missing; heads and pooling read what it "
            "gives, so it is always kept"
        )
    return keep


def check_number(num_kept: int, num_blocks: int) -> None:
    """Refuse a student that is as deep as its teacher, or deeper."""
    if not 1 <= num_kept < num_blocks:
        raise UserError(
            f"a student of {num_kept} blocks, and a teacher of {num_blocks}: expected 1 to {num_blocks - 1}; "
            "a student has fewer blocks than its teacher"
        )


def chosen_blocks(num_blocks: int, num_kept: int, cost: Cost) -> tuple[int, ...]:
    """Return the ``num_kept`` blocks that cost the least, the last one always among them."""
    last = num_blocks - 1
    if comb(last, num_kept - 1) <= MAX_CHOICES:
        choices = [(*others, last) for others in combinations(range(last), num_kept - 1)]
        return min(choices, key=cost)
    keep = tuple(range(num_blocks))
    while len(keep) > num_kept:
        keep = min((tuple(one for one in keep if one != gone) for gone in keep[:-1]), key=cost)
    return keep
