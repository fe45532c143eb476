"""An engine in a process of its own: it sleeps while another is measured.

Threads that wait for work may spin; in one process they would burden the engine whose turn it is.
"""

import multiprocessing as mp
import re
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

Run = Callable[[], Any]
"""One measured piece of work."""
PAUSE_S = 0.3


def serve(make: Callable[..., dict[str, Run]], arguments: tuple[Any, ...], pipe: Connection) -> None:
    """Hold one engine in this process: name its variants, then time each one that is asked for."""
    runs = make(*arguments)
    pipe.send(list(runs))
    while (name := pipe.recv()) is not None:
        started_at = time.perf_counter()
        runs[name]()
        pipe.send(time.perf_counter() - started_at)
    pipe.send(peak_memory())


def peak_memory() -> float:
    """Return the most memory that this process ever held, in MB.

    `getrusage` would not do: its figure is that of the parent, if that one was larger when it started us.
    """
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


class Worker:
    """An engine in its own process, so that its waiting threads do not burden the one being measured."""

    def __init__(self, make: Callable[..., dict[str, Run]], *arguments: Any) -> None:
        self.pipe, theirs = mp.Pipe()
        self.process = mp.get_context("spawn").Process(
            target=serve, args=(make, arguments, theirs), daemon=True
        )
        self.process.start()
        theirs.close()  # so that an engine that dies ends our wait
        self.variants: list[str] = self.pipe.recv()

    def measure(self, variant: str) -> float:
        time.sleep(PAUSE_S)  # let the engine measured before stop spinning
        self.pipe.send(variant)
        return float(self.pipe.recv())

    def keep_best_variant(self) -> None:
        """Try every batch size twice and continue with the fastest."""
        times = {variant: min(self.measure(variant) for _ in range(2)) for variant in self.variants}
        self.variants = [min(times, key=lambda variant: times[variant])]

    def close(self) -> float:
        """End the engine; return the most memory it ever held, in MB."""
        self.pipe.send(None)
        peak_mb = float(self.pipe.recv())
        self.process.join()
        return peak_mb
