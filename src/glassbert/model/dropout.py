"""Dropout that draws little: on a CPU, one random number for each feature would take a sixth of a step."""

import torch
import torch.nn.functional as F
from torch import Tensor

# A 64-bit draw serves four features: 16 bits each, so a probability is met to within 1/131,072.
_BITS, _PER_DRAW = 16, 4


def dropout(x: Tensor, probability: float, is_training: bool) -> Tensor:
    """Zero each number of ``x`` with ``probability`` and scale up the rest; in training only."""
    if not (is_training and probability):
        return x
    if not x.is_cpu:
        return F.dropout(x, probability)
    return x * _factors(x, probability)


def _factors(x: Tensor, probability: float) -> Tensor:
    """Draw what each number of ``x`` is multiplied by: 0, or the factor that keeps the mean."""
    num_dropped = round(probability * 2**_BITS)
    draws = torch.empty(-(-x.numel() // _PER_DRAW), dtype=torch.int64).random_(-(2**63), None)
    numbers = draws.view(torch.int16)[: x.numel()].view(x.shape)
    # The comparison writes 0 and 1 as floats at once; by way of booleans it would take three times as long.
    kept = torch.ge(numbers, num_dropped - 2 ** (_BITS - 1), out=torch.empty(x.shape, dtype=x.dtype))
    return kept.mul_(1.0 / (1.0 - num_dropped / 2**_BITS))
