"""Attention rollout (Abnar and Zuidema 2020): how much of each token could reach the head through attention.

Legend: Q, K tokens of an input, N heads.
"""

import re

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassbert.glassbox.why.subject import Subject
from glassbert.glassbox.why.variants import network_of
from glassbert.inference.model import Model
from glassbert.model.layout import Batch
from glassbert.model.tap import Tap
from glassbert.sentence import Sentence

CAUTION = Sentence(
    "attention says where a layer looked, not what decided: check it by occlusion or gradients"
)
_PROBS = re.compile(r"enc\.(\d+)\.attn\.probs")


@torch.no_grad()
def rollout(model: Model, subject: Subject) -> NDArray[np.float64]:
    """Return the share of each token of all inputs in what the head reads, (T,); they add up to 1."""
    network, shares = network_of(model), []
    for ids, segments, places in zip(subject.ids, subject.segments, subject.looks_from, strict=True):
        paths: list[Tensor] = []

        def sink(name: str, value: Tensor, paths: list[Tensor] = paths) -> Tensor:
            if _PROBS.fullmatch(name):
                paths.append(value[0].mean(dim=0))  # (Q, K)
            return value

        batch = Batch.from_lists([ids.tolist()], [segments.tolist()]).to(model.device)
        network(batch, tap=Tap(sink))
        shares.append(reach(paths)[list(places)].mean(dim=0) / len(subject.ids))
    return torch.cat(shares).double().cpu().numpy()


def reach(paths: list[Tensor]) -> Tensor:
    """Return how much of each first token, by column, is in each last one, by row, (Q, K).

    The residual connection carries one half of a state past the attention of its block.
    """
    joined = torch.eye(len(paths[0])).to(paths[0])
    for probs in paths:
        joined = (0.5 * probs + 0.5 * torch.eye(len(probs)).to(probs)) @ joined
    return joined
