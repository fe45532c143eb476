"""Tasks that can tell one kind of attention from another: every answer is decided by other tokens.

Legend: B sequences, L length.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from glassbert.glassbox.lab.words import Words

NO_LABEL = -100
_NUM_TOKENS = 8
_NUM_NEIGHBOUR_TOKENS = 3
NEIGHBOURS = (-2, -1, 1, 2)
Draw = Callable[[torch.Generator, int, int], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Toy:
    """A task whose sequences are drawn at random."""

    name: Words
    num_ids: int
    num_labels: int
    draw: Draw
    """Returns ids and labels, (B, L) each, of B sequences of length L; `NO_LABEL` where nothing is asked."""
    is_causal: bool = False
    """Whether a token may look only at itself and at those before it."""


def _tokens(generator: torch.Generator, num_sequences: int, length: int, num: int = _NUM_TOKENS) -> Tensor:
    return torch.randint(num, (num_sequences, length), generator=generator)


def _copy(generator: torch.Generator, num_sequences: int, length: int) -> tuple[Tensor, Tensor]:
    """The second half is blank; write the first half there."""
    half = _tokens(generator, num_sequences, length // 2)
    blank = torch.full_like(half, _NUM_TOKENS)
    return torch.cat([half, blank], dim=1), torch.cat([torch.full_like(half, NO_LABEL), half], dim=1)


def _previous(generator: torch.Generator, num_sequences: int, length: int) -> tuple[Tensor, Tensor]:
    """Write the token before this one."""
    ids = _tokens(generator, num_sequences, length)
    labels = ids.roll(1, dims=1)
    labels[:, 0] = NO_LABEL
    return ids, labels


def _induction(generator: torch.Generator, num_sequences: int, length: int) -> tuple[Tensor, Tensor]:
    """The second half repeats the first from a random place; write what follows this token in the first."""
    half = length // 2
    order = torch.rand(num_sequences, max(half, _NUM_TOKENS), generator=generator).argsort(dim=1)[:, :half]
    shift = torch.randint(half, (num_sequences, 1), generator=generator)
    again = order.gather(1, (torch.arange(half) + shift) % half)
    ids = torch.cat([order, again], dim=1)
    labels = torch.full_like(ids, NO_LABEL)
    labels[:, half:-1] = ids[:, half + 1 :]
    # Where the first half ends, its first token follows: that is not to be found in the sequence.
    labels[:, half:][again == order[:, -1:]] = NO_LABEL
    return ids, labels


def _brackets(generator: torch.Generator, num_sequences: int, length: int) -> tuple[Tensor, Tensor]:
    """Brackets of two kinds, closed by one sign; write the kind of the bracket that each sign closes."""
    rolls = torch.rand(num_sequences, length, 2, generator=generator).tolist()
    ids, labels = [], []
    for of_sequence in rolls:
        row: list[int] = []
        answers: list[int] = []
        stack: list[int] = []
        for place, (roll, kind) in enumerate(of_sequence):
            must_close = len(stack) >= length - place
            if stack and (must_close or roll < 0.5):
                row.append(2)
                answers.append(stack.pop())
            else:
                stack.append(int(kind < 0.5))
                row.append(stack[-1])
                answers.append(NO_LABEL)
        ids.append(row)
        labels.append(answers)
    return torch.tensor(ids), torch.tensor(labels)


def _neighbours(generator: torch.Generator, num_sequences: int, length: int) -> tuple[Tensor, Tensor]:
    """Write the two tokens before and the two after this one: four places, none to be mixed up."""
    ids = _tokens(generator, num_sequences, length, _NUM_NEIGHBOUR_TOKENS)
    labels = torch.zeros_like(ids)
    for distance in NEIGHBOURS:
        labels = labels * _NUM_NEIGHBOUR_TOKENS + ids.roll(-distance, dims=1)
    labels[:, [0, 1, -2, -1]] = NO_LABEL
    return ids, labels


TOYS = {
    "copy": Toy(Words("copy", "复制"), _NUM_TOKENS + 1, _NUM_TOKENS, _copy),
    "previous": Toy(Words("previous token", "前一个 token"), _NUM_TOKENS, _NUM_TOKENS, _previous),
    "induction": Toy(Words("induction", "归纳"), _NUM_TOKENS, _NUM_TOKENS, _induction, is_causal=True),
    "brackets": Toy(Words("bracket matching", "括号匹配"), 3, 2, _brackets),
    "neighbours": Toy(
        Words("four neighbours", "四个邻居"),
        _NUM_NEIGHBOUR_TOKENS,
        _NUM_NEIGHBOUR_TOKENS ** len(NEIGHBOURS),
        _neighbours,
    ),
}
