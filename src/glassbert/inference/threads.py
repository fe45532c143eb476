"""Several batches at once, one thread each, so that no thread waits for another within a layer."""

import os
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
    """Yield the result of ``work`` for each batch, in order, like `map`.

    As many batches as torch has threads run at once, on one thread each. The rest, too few to give every
    thread a batch, run one after the other on all threads.
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
    """Return a pool whose threads compute alone; all other threads keep their setting."""
    pool = ThreadPoolExecutor(number, "glassbert", initializer=compute_alone)
    all_started = Barrier(number)
    list(pool.map(lambda _: all_started.wait(), range(number)))
    torch.set_num_threads(number)
    return pool


def _after_fork() -> None:
    """Make a forked child work: it has none of our threads, and none of those that torch computes on.

    A product on several threads would wait for them forever, so a child computes on one.
    """
    global _starting
    _starting = Lock()
    _workers.cache_clear()
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def compute_alone() -> None:
    """Let torch compute on this thread alone when this thread asks.

    The setting belongs to the thread that makes it. But torch reads it on first use, and takes the latest
    setting of any thread; so read it now, while ours is the latest.
    """
    torch.set_num_threads(1)
    torch.get_num_threads()
