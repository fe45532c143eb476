"""Compute threads: each takes a batch, runs it, hands in the outputs; a thread that dies is replaced."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from glassbert.serve.queue import Batch, Queue
from glassbert.serve.tickets import Unavailable

HANGS_AFTER_S = 60.0
"""A batch that runs longer makes the server unhealthy."""
LOST_AFTER_S = 180.0
"""After this time it is taken to hang: the server gives up, to be started again."""
MAX_DEATHS = 3
DEATHS_WITHIN_S = 60.0
"""This many deaths of threads in this time, and the server gives up."""
POLL_S = 1.0
ALONE_S = 0.1
"""A lone batch of less work than this runs on one core: in each of a network's many steps the cores wait for
each other, and for as long as it takes where something else is running too."""


@dataclass(eq=False)
class Worker:
    """One compute thread and the batch that it runs."""

    thread: threading.Thread = field(init=False)
    batch: Batch | None = None


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What the rest of the server does around batches. All run on compute threads and must be quick."""

    prepare: Callable[[], None] = lambda: None
    """At the start of each thread."""
    use_cores: Callable[[int], None] = lambda number: None
    """Let the batch that follows run on this many cores."""
    on_batch: Callable[[Batch, float], None] = lambda batch, seconds: None
    """After each batch."""
    on_failure: Callable[[Exception], None] = lambda error: None
    """For each text on which the model failed."""
    on_death: Callable[[BaseException], None] = lambda error: None
    on_restart: Callable[[], None] = lambda: None
    """When a thread is replaced by a new one."""


class Workers:
    """A fixed number of compute threads over one queue."""

    def __init__(
        self,
        queue: Queue,
        number: int,
        hooks: Hooks | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.queue = queue
        self.number = number
        self.hooks = hooks or Hooks()
        self.clock = clock
        self._has_died_often = False
        self._deaths: deque[float] = deque(maxlen=MAX_DEATHS)
        self._workers: list[Worker] = []
        self._is_stopping = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start all threads; each has run its `prepare` on return."""
        all_ready = threading.Barrier(self.number + 1)
        for _ in range(self.number):
            self._start_one(all_ready)
        all_ready.wait()

    def stop(self, timeout_s: float = 1.0) -> None:
        """Let each thread end after its batch; what one has not finished in time gets no answer."""
        self._is_stopping = True
        self.queue.close()
        ends_at = time.monotonic() + timeout_s
        for worker in self._workers:
            worker.thread.join(max(0.0, ends_at - time.monotonic()))
            if worker.batch:
                for unit in worker.batch.units:
                    unit.ticket.end(Unavailable())

    def problem(self) -> str | None:
        """Return what is wrong with the threads, in words; None if all is well."""
        if self._has_died_often:
            return f"compute threads died {MAX_DEATHS} times within {DEATHS_WITHIN_S:g} s"
        with self._lock:
            num_alive = sum(worker.thread.is_alive() for worker in self._workers)
        if num_alive < self.number:
            return f"{num_alive} of {self.number} compute threads are alive"
        if self._longest_s() > HANGS_AFTER_S:
            return f"a batch has been running for more than {HANGS_AFTER_S:g} s"
        return None

    def have_given_up(self) -> bool:
        """Return whether only a new process can help: threads keep dying, or one never returns."""
        return self._has_died_often or self._longest_s() > LOST_AFTER_S

    def _longest_s(self) -> float:
        """Return how long the oldest batch has been running."""
        with self._lock:
            batches = [worker.batch for worker in self._workers]
        return max((self.clock() - batch.started_at for batch in batches if batch), default=0.0)

    def _start_one(self, all_ready: threading.Barrier | None = None) -> None:
        worker = Worker()
        worker.thread = threading.Thread(
            target=self._live, args=(worker, all_ready), name="glassbert-compute", daemon=True
        )
        with self._lock:
            self._workers.append(worker)
        worker.thread.start()

    def _live(self, worker: Worker, all_ready: threading.Barrier | None) -> None:
        try:
            self.hooks.prepare()
            if all_ready:
                all_ready.wait()
            while not self._is_stopping:
                if batch := self.queue.take(POLL_S):
                    self._run(worker, batch)
        except BaseException as error:  # even SystemExit: a server without threads would hang silently
            self._die(worker, error)

    def _run(self, worker: Worker, batch: Batch) -> None:
        worker.batch = batch
        num_cores = self.number if batch.is_alone and batch.expected_s >= ALONE_S else 1
        if num_cores > 1:
            self.hooks.use_cores(num_cores)
        try:
            outputs = batch.units[0].group.run([unit.payload for unit in batch.units])
            assert len(outputs) == len(batch.units)
        except Exception as error:
            outputs = None
            if len(batch.units) == 1:
                self._fail(batch, 0, error)
        finally:
            if num_cores > 1:
                self.hooks.use_cores(1)
        if outputs is not None:
            for unit, output in zip(batch.units, outputs, strict=True):
                unit.ticket.deliver(unit, output)
        elif len(batch.units) > 1:
            self._run_one_by_one(batch)
        worker.batch = None
        self.queue.finish(batch)
        self.hooks.on_batch(batch, self.clock() - batch.started_at)

    def _run_one_by_one(self, batch: Batch) -> None:
        """Find the text that made the batch fail: the others have an answer."""
        for index, unit in enumerate(batch.units):
            if unit.ticket.is_over:
                continue
            try:
                (output,) = unit.group.run([unit.payload])
            except Exception as error:
                self._fail(batch, index, error)
            else:
                unit.ticket.deliver(unit, output)

    def _fail(self, batch: Batch, index: int, error: Exception) -> None:
        self.hooks.on_failure(error)
        batch.units[index].ticket.fail(batch.units[index], error)

    def _die(self, worker: Worker, error: BaseException) -> None:
        batch, worker.batch = worker.batch, None
        now = self.clock()
        with self._lock:
            self._workers.remove(worker)
            self._deaths.append(now)
            is_hopeless = len(self._deaths) == MAX_DEATHS and now - self._deaths[0] <= DEATHS_WITHIN_S
        if batch:
            self.queue.finish(batch)
            for unit in batch.units:
                self.queue.cancel(unit.ticket, Unavailable())
        self.hooks.on_death(error)
        if is_hopeless:
            self._has_died_often = True
        elif not self._is_stopping:
            self.hooks.on_restart()
            self._start_one()
