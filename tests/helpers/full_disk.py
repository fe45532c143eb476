"""Disks that are full when a test says so: a real small one, or a limit on the size of files."""

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest


class Disk(Protocol):
    """A folder whose disk can be filled up."""

    folder: Path

    def fill(self, room: int) -> None:
        """Let no more than about ``room`` bytes fit."""

    def clear(self) -> None:
        """Make room again."""


class SmallDisk:
    """A tmpfs of a few megabytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, room: int) -> None:
        self._ballast.write_bytes(bytes(max(0, shutil.disk_usage(self.folder).free - room)))

    def clear(self) -> None:
        self._ballast.unlink(missing_ok=True)


class LimitedFiles:
    """A limit on how large a file this process may write, for where nothing can be mounted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self, room: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, self._before[1]))

    def clear(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)


@contextmanager
def disk(kind: str, folder: Path, num_bytes: int) -> Iterator[Disk]:
    """Give a disk of ``kind`` at ``folder``: a tmpfs of ``num_bytes``, or a limit."""
    folder.mkdir()
    if kind == "tmpfs":
        command = ["mount", "-t", "tmpfs", "-o", f"size={num_bytes}", "tmpfs", str(folder)]
        if os.name != "posix" or shutil.which("mount") is None or subprocess.run(command).returncode:
            pytest.skip("this user may not mount a tmpfs; the limit on files is tested instead")
        try:
            yield SmallDisk(folder)
        finally:
            subprocess.run(["umount", str(folder)], check=True)
        return
    limited = LimitedFiles(folder)
    try:
        yield limited
    finally:
        limited.clear()
