"""Matrices as whole numbers of few bits, with a scale for each row."""

import torch
from torch import Tensor

from glassbert.errors import ModelError

SMALLEST = 1e-30
"""Smaller numbers count as zero; the inverse of this one is still finite."""


def quantised_rows(weight: Tensor, largest: int) -> tuple[Tensor, Tensor]:
    """Return a matrix, (N, K), as int8 numbers up to ``largest`` and the scale of each row, (N, 1).

    A row of zeros stays one.
    """
    if not torch.isfinite(weight).all():
        raise ModelError("a weight is NaN or infinite, which int8 cannot hold; the model is damaged")
    scale = weight.abs().amax(1, keepdim=True).clamp_min_(SMALLEST).div_(largest)
    return (weight / scale).round_().to(torch.int8), scale
