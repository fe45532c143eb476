"""How many cores this process may really use: in a container that is fewer than the machine has."""

import math
import os
from pathlib import Path

_V2 = Path("sys/fs/cgroup/cpu.max")
_V1 = Path("sys/fs/cgroup/cpu/cpu.cfs_quota_us"), Path("sys/fs/cgroup/cpu/cpu.cfs_period_us")


def num_cores(root: str | Path = "/") -> int:
    """Return the cores that affinity and the limit of the control group leave, at least one."""
    affine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = _group_limit(Path(root))
    return max(1, affine if limit is None else min(affine, math.ceil(limit)))


def _group_limit(root: Path) -> float | None:
    """Return the limit of the control group in cores; None without one."""
    try:
        if (root / _V2).is_file():
            quota, period = (root / _V2).read_text().split()[:2]
        else:
            quota, period = ((root / path).read_text().strip() for path in _V1)
        return float(quota) / float(period) if quota not in ("max", "-1") else None
    except (OSError, ValueError, ZeroDivisionError):
        return None
