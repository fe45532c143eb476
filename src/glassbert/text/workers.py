"""Process a stream of items on several processes, with results in the order of the items."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import chain, islice
from typing import TypeVar

from glassbert.signals import not_inherited

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(
    work: Callable[[Item], Result], items: Iterator[Item], processes: int, *, max_under_way: int | None = None
) -> Iterator[Result]:
    """Yield the result of each item in order, with a bounded number of items under way.

    A single item, and every item if there is one process, is processed here.
    """
    first = list(islice(items, 2))
    items = chain(first, items)
    if processes == 1 or len(first) < 2:
        yield from map(work, items)
        return
    max_under_way = max_under_way or processes + 1
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=start_worker) as pool:
        under_way: deque[Future[Result]] = deque()
        try:
            for item in items:
                with not_inherited():  # a submission may start a process
                    under_way.append(pool.submit(work, item))
                if len(under_way) > max_under_way:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def start_worker() -> None:
    """Leave Ctrl-C to the parent, and end with it even if it is killed: an orphan would wait forever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The engine would start a thread for each core in each process.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
