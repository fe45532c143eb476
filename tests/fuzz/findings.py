"""Try a case at a door: a finding is anything but success or a `UserError`, or takes too long or too much."""

import resource
import signal
import tempfile
import time
from pathlib import Path
from types import FrameType

from fuzz.doors import Door
from glassbert.errors import UserError

MAX_SECONDS = 5.0
MAX_CLOCK_SECONDS = 100.0
"""Other programs may run, too."""
MAX_GROWTH_KB = 1 << 20


class Finding(AssertionError):
    """What went wrong at a door."""


def attempt(door: Door, data: bytes) -> None:
    """Throw ``data`` at a door; raise what should not have happened."""
    memory, started = _peak_kb(), time.process_time()

    def too_slow(signum: int, frame: FrameType | None) -> None:
        raise Finding(f"{door.name}: no end after {MAX_CLOCK_SECONDS:g} s")

    previous = signal.signal(signal.SIGALRM, too_slow)
    signal.setitimer(signal.ITIMER_REAL, MAX_CLOCK_SECONDS)
    try:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            door.open(data, Path(folder))
    except UserError:
        pass  # what a user can cause; the command line prints it on one line
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    seconds = time.process_time() - started
    if seconds > MAX_SECONDS:
        raise Finding(f"{door.name}: {seconds:.1f} s for {len(data):,} bytes")
    if _peak_kb() - memory > MAX_GROWTH_KB:
        raise Finding(f"{door.name}: {(_peak_kb() - memory) >> 10:,} MB for {len(data):,} bytes")


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
