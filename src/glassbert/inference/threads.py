"""Batches side by side: a thread for each, so that no thread waits for another within a layer."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from threading import Barrier, Lock
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

_starting = Lock()


def map_batches(work: Callable[[Item], Result], batches: Sequence[Item]) -> Iterator[Result]:
    """Yield what ``work`` makes of each batch, in order, like `map`.

    As many batches as torch has threads are worked on at once, with one thread each. What is left over, too
    little to give every thread a batch, gets all threads together.
    """
    num_threads = torch.get_num_threads()
    num_shared = len(batches) - len(batches) % num_threads if num_threads > 1 else 0
    if num_shared:
        with _starting:
            pool = _workers(num_threads)
        yield from pool.map(work, batches[:num_shared])
    yield from map(work, batches[num_shared:])


@lru_cache(maxsize=1)
def _workers(number: int) -> ThreadPoolExecutor:
    """Return threads for which torch computes alone; every other thread keeps the number it has."""
    pool = ThreadPoolExecutor(number, "glassbert", initializer=_compute_alone)
    all_started = Barrier(number)
    list(pool.map(lambda _: all_started.wait(), range(number)))
    torch.set_num_threads(number)
    return pool


def _compute_alone() -> None:
    """Let torch use no thread but this one for what this one computes.

    The setting is of the thread that makes it, but a thread takes over the latest of all when torch first
    looks at it; so it is looked at while it is still ours.
    """
    torch.set_num_threads(1)
    torch.get_num_threads()
