"""How many cores this process may really use: in a container or a service, fewer than the machine has."""

import math
import os
from pathlib import Path

_GROUPS = Path("sys/fs/cgroup")
_V1 = ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")


def num_cores(root: str | Path = "/") -> int:
    """Return the cores that affinity and the limits of control groups leave, at least one."""
    affine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([affine, *map(math.ceil, _group_limits(Path(root)))]))


def _group_limits(root: Path) -> list[float]:
    """Return the limits of the process's control group and of those around it, in cores."""
    groups = root / _GROUPS
    own = groups / _own_group(root)
    found = [_limit(folder / "cpu.max") for folder in (own, *own.parents) if folder.is_relative_to(groups)]
    found.append(_limit(*(groups / name for name in _V1)))
    return [limit for limit in found if limit is not None]


def _own_group(root: Path) -> str:
    """Return the path of the process's group below the others; in a container mostly the top."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return ""
    return next((line.removeprefix("0::").strip("/") for line in lines if line.startswith("0::")), "")


def _limit(*files: Path) -> float | None:
    """Return quota / period, which one file or two hold; None without a limit."""
    try:
        quota, period = " ".join(file.read_text() for file in files).split()[:2]
        return float(quota) / float(period) if quota not in ("max", "-1") else None
    except (OSError, ValueError, ZeroDivisionError):
        return None
