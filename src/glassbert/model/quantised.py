"""Matrices as whole numbers of few bits, with a scale for each row."""

import torch
from torch import Tensor

from glassbert.errors import ModelError
from glassbert.model.finite import is_finite

SMALLEST = 1e-30
"""Smaller numbers count as zero; the inverse of this one is still finite."""
_ROWS = 2048
"""Rows that are divided at once: a second copy of a large table would double the memory."""


def quantised_rows(weight: Tensor, largest: int) -> tuple[Tensor, Tensor]:
    """Return a matrix, (N, K), as int8 numbers up to ``largest`` and the scale of each row, (N, 1).

    A row of zeros stays one.
    """
    if not is_finite(weight):
        raise ModelError("a weight is NaN or infinite, which int8 cannot hold; the model is damaged")
    peak = torch.maximum(weight.amax(1, keepdim=True), weight.amin(1, keepdim=True).neg_())
    scale = peak.clamp_min_(SMALLEST).div_(largest)
    parts = zip(weight.split(_ROWS), scale.split(_ROWS), strict=True)
    return torch.cat([(rows / steps).round_().to(torch.int8) for rows, steps in parts]), scale
