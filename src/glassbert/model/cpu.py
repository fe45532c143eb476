"""The vector width of the CPU: some kernels pay off only with wide vectors, others only with narrow ones."""

from functools import cache

import torch

_FLOATS = {"AVX2": 8, "AVX512": 16}


@cache
def simd_width() -> int:
    """Return how many float32 numbers torch computes with at once; 1 where it does not say."""
    return _FLOATS.get(torch.backends.cpu.get_cpu_capability(), 1)
