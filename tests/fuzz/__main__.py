"""Throw hostile bytes at every door for FUZZ_MINUTES (5), with seeds from FUZZ_SEED (0) on.

A finding is printed with its door and seed, made as small as possible, and kept in tests/fuzz/corpus, where
`make test` tries it again. Words as arguments choose the doors whose names hold one of them.
"""

import hashlib
import io
import os
import resource
import sys
import tempfile
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from fuzz.doors import DOORS, Door
from fuzz.findings import attempt

CORPUS = Path(__file__).parent / "corpus"
UNDER_WAY = Path(tempfile.gettempdir()) / f"fuzz-{os.getpid()}-under-way"
"""The case that is tried, for the day on which one ends the process."""
MOST_MEMORY = 4 << 30
ROUND = 40
"""Cases of a door before the next one has its turn."""


def fuzz(door: Door, round_seed: int, num_cases: int) -> tuple[bytes, BaseException] | None:
    """Try some cases; return the smallest that fails, and how."""
    smallest: list[tuple[bytes, BaseException]] = []

    @seed(round_seed)
    @settings(
        max_examples=num_cases,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
    )
    @given(door.cases())
    def tried(data: bytes) -> None:
        UNDER_WAY.write_bytes(data)
        try:
            attempt(door, data)
        except Exception as error:
            smallest[:] = [(data, error)]
            raise

    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            tried()
    except Exception as error:
        return smallest[0] if smallest else (b"", error)
    return None


def kept(door: Door, data: bytes) -> Path:
    """Write a case to the corpus, under the name of its door."""
    path = CORPUS / f"{door.slug}.{hashlib.sha256(data).hexdigest()[:8]}"
    path.write_bytes(data)
    return path


def main() -> int:
    """Fuzz until the time is over."""
    minutes, round_seed = float(os.environ.get("FUZZ_MINUTES", "5")), int(os.environ.get("FUZZ_SEED", "0"))
    doors = [door for door in DOORS if not sys.argv[1:] or any(word in door.name for word in sys.argv[1:])]
    end, num_cases, found = time.monotonic() + 60 * minutes, 0, set[str]()
    # A case that eats memory must end in a finding, not take the machine along.
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    print(
        f"{len(doors)} doors, {minutes:g} minutes, seeds from {round_seed}; under way: {UNDER_WAY}",
        flush=True,
    )
    while time.monotonic() < end:
        for door in doors:
            if door.name in found or time.monotonic() > end:
                continue
            finding = fuzz(door, round_seed, ROUND)
            num_cases += ROUND
            if finding:
                found.add(door.name)
                data, error = finding
                print(f"\nFINDING at {door.name}, seed {round_seed}: {data[:200]!r}")
                print(f"  kept in {kept(door, data)}", flush=True)
                traceback.print_exception(error, limit=-4)
        round_seed += 1
    print(f"{num_cases:,} cases, the last seed {round_seed - 1}, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
