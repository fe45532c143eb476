"""Measurements of the machine: peak speed of its arithmetic, and memory."""

import sys
import time
from functools import cache

import torch


@cache
def measured_peak(device: torch.device, seconds: float = 0.2) -> float:
    """Return the floating-point operations per second of a large matrix product, measured once."""
    a, b = torch.randn(1024, 768, device=device), torch.randn(768, 3072, device=device)
    torch.mm(a, b)
    best, ends_at = float("inf"), time.monotonic() + seconds
    while time.monotonic() < ends_at:
        _wait_for(device)
        started_at = time.perf_counter()
        torch.mm(a, b)
        _wait_for(device)
        best = min(best, time.perf_counter() - started_at)
    return 2 * 1024 * 768 * 3072 / best


def peak_memory(device: torch.device) -> int | None:
    """Return the peak memory of this process in bytes, on the GPU if it computes there."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows
        return None
    # Linux counts in kilobytes, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _wait_for(device: torch.device) -> None:
    """Wait until the GPU has finished; a CPU has finished when the call returns."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
