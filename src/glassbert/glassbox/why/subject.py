"""What is explained: the inputs of one item, and the one number of the answer that is asked about.

Legend: V variants of the item, W inputs of one variant, T tokens of one variant, C choices.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassbert.errors import ModelError
from glassbert.glassbox.why.tokens import Token
from glassbert.inference.model import Candidate
from glassbert.model.bert import Output
from glassbert.model.layout import Batch, Layout
from glassbert.sentence import Sentence

LOG_ODDS = Sentence("log-odds")
Read = Callable[[Output, int], Tensor]
"""Takes the concatenated outputs of V variants, and V; returns the number of each, (V,)."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """An item as the model reads it, and the number that is explained."""

    task: str
    texts: tuple[str, ...]
    ids: tuple[NDArray[np.int32], ...]
    """Of each input: one, or the windows of a long text."""
    segments: tuple[NDArray[np.int8], ...]
    tokens: tuple[Token, ...]
    target: str = ""
    """The answer that is explained, in words."""
    unit: str = LOG_ODDS
    read: Read | None = None
    """None for an item that the model gives no answer to."""
    is_decision: bool = True
    """Whether the sigmoid of the number is a probability."""
    predict_at: tuple[int, ...] = ()
    """Where the MLM head predicts, in the tokens of all inputs."""
    looks_from: tuple[tuple[int, ...], ...] = ()
    """For each input, the positions that the head reads for this answer."""
    candidates: Callable[[Output, int], list[tuple[Candidate, ...]]] | None = None
    """Takes the same as `read`; returns the likeliest answers of each variant."""
    notes: tuple[str, ...] = ()
    why_not: str = ""
    """If there is no number: the reason, and what to do."""

    @property
    def all_ids(self) -> NDArray[np.int32]:
        """The ids of all inputs, concatenated, (T,)."""
        return np.concatenate(self.ids)

    @property
    def num_tokens(self) -> int:
        """Tokens of all inputs together."""
        return sum(map(len, self.ids))

    @property
    def starts(self) -> list[int]:
        """Where each input begins in the tokens of all of them."""
        return [0, *np.cumsum([len(ids) for ids in self.ids])[:-1].tolist()]

    def flat(self, token: Token) -> list[int]:
        """Return where a token is in the tokens of all inputs."""
        return [self.starts[number] + position for number, position in token.seats]

    def pack(self, variants: Sequence[NDArray[np.int32]], device: torch.device) -> Batch:
        """Return variants as one batch; each is the ids of all inputs, (T,)."""
        lengths = tuple(len(ids) for ids in self.ids) * len(variants)
        ids = torch.from_numpy(np.concatenate(variants)).to(device, torch.int64)
        segments = torch.from_numpy(np.concatenate(self.segments)).to(device, torch.int64)
        return Batch(ids, segments.repeat(len(variants)), Layout(lengths))

    def places(self, num_variants: int, device: torch.device) -> Tensor | None:
        """Return where the MLM head predicts in a batch of variants."""
        if not self.predict_at:
            return None
        first = torch.arange(num_variants)[:, None] * self.num_tokens
        return (first + torch.tensor(self.predict_at)).flatten().to(device)

    def numbers(self, output: Output, num_variants: int) -> Tensor:
        """Return the number that is explained for each variant, (V,)."""
        assert self.read is not None
        found = self.read(output, num_variants)
        if not torch.isfinite(found).all():
            raise ModelError(Sentence("the model's answer is not a number; run `glassbert doctor` on it"))
        return found


def log_odds(logits: Tensor, choice: int | Tensor) -> Tensor:
    """Return log p / (1 - p) of one choice of the softmax, (...), from (..., C) logits.

    Unlike a logit it knows the other choices, and unlike a log-probability it does not flatten out when the
    model is sure.

    Args:
        choice: Its number, or one for each row, (...).
    """
    index = torch.as_tensor(choice, device=logits.device).expand(logits.shape[:-1])[..., None]
    chosen = logits.gather(-1, index)[..., 0]
    if logits.size(-1) == 1:
        return chosen
    return chosen - logits.scatter(-1, index, -torch.inf).logsumexp(-1)
