"""The models at work: texts are tokenised on one thread, wait in the queue, are computed on others."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

from glassbert.errors import UserError
from glassbert.inference.devices import Place
from glassbert.serve import runner
from glassbert.serve.answer import Answer, Asker
from glassbert.serve.cores import num_cores
from glassbert.serve.http.log import Log
from glassbert.serve.http.problems import Problem
from glassbert.serve.metrics import Metrics
from glassbert.serve.problems import problem_of
from glassbert.serve.questions import Question
from glassbert.serve.queue import Batch, Limits, Queue
from glassbert.serve.served import Served
from glassbert.serve.settings import ServeSettings
from glassbert.serve.tickets import Failure, Part
from glassbert.serve.workers import Hooks, Workers

SLICE, SLICE_CHARACTERS = 32, 50_000
"""What is tokenised at a time, so that a small request need not wait for all texts of a large one."""
CHARACTERS_PER_TOKEN = 4
"""For a first guess of how long a request takes, before it is tokenised."""

Result = TypeVar("Result")


class Service:
    """The served models, their queue and their threads."""

    def __init__(
        self,
        folders: Mapping[str, str],
        settings: ServeSettings,
        place: Place,
        log: Log,
        metrics: Metrics,
    ) -> None:
        self.folders, self.settings, self.place, self.log, self.metrics = (
            folders,
            settings,
            place,
            log,
            metrics,
        )
        self.models: dict[str, Served] = {}
        self.num_threads = settings.threads or num_cores()
        limits = Limits(
            timeout_s=settings.timeout, max_timeout_s=settings.max_timeout, max_wait_s=settings.max_wait
        )
        self.queue = Queue(limits, num_workers=self.num_threads)
        hooks = Hooks(
            prepare=runner.prepare_thread,
            use_cores=(lambda number: None) if settings.exact else runner.use_cores,
            on_batch=self._count_batch,
            on_failure=self._log_failure,
            on_death=lambda error: log.event("compute thread died", failure=type(error).__name__),
            on_restart=metrics.worker_restarts.add,
        )
        self.workers = Workers(self.queue, self.num_threads, hooks)
        self._tokeniser = ThreadPoolExecutor(1, "glassbert-tokenise")
        self._num_bytes = 0

    def load(self) -> None:
        """Load all models and measure them; if one cannot be loaded, nothing changes.

        No thread is left behind, so that a process may fork then.
        """
        for served in [self._loaded(name, folder) for name, folder in self.folders.items()]:
            self._take_in(served)

    def start(self) -> None:
        """Start the compute threads."""
        usual = torch.get_num_threads()
        self.workers.start()
        torch.set_num_threads(usual)  # for other threads; ours have their own setting
        threading.Thread(target=self._read_digests, daemon=True).start()

    def reload(self) -> None:
        """Load all models again and put them in place."""
        self.load()
        self._read_digests()

    def stop(self) -> None:
        """End what waits and stop the threads."""
        self.workers.stop()
        self._tokeniser.shutdown(wait=False, cancel_futures=True)

    async def ask(
        self,
        served: Served,
        question: Question,
        items: Sequence[Any],
        asker: Asker,
        *,
        should_stream: bool = False,
    ) -> Answer:
        """Return the answer for ``items``, which may still have to wait for its rows.

        Args:
            should_stream: Whether rows are wanted one by one; a text that fails then ends only its row.
        """
        guess = sum(num_characters(item) for item in items) // CHARACTERS_PER_TOKEN
        try:
            self.queue.check(
                min(guess, len(items) * served.max_length),
                len(items),
                model=served.name,
                client=asker.client,
                patience_s=asker.patience_s,
            )
            started = self.queue.clock()
            parts: list[Part] = await self.in_slices(question.parts, items)
            answer = Answer(self.queue, parts, served.name, asker, should_stream)
            answer.tokenise_s = self.queue.clock() - started
            self.queue.submit(answer.ticket)
        except Failure as failure:
            raise problem_of(failure) from None
        return answer

    def hold(self, num_bytes: int) -> None:
        """Count the body of a request that is being worked on; refuse it if there are too many of them."""
        self._num_bytes += num_bytes
        if self._num_bytes > self.settings.max_queued_bytes:
            headers = {"retry-after": "1", "retry-after-ms": "1000"}
            raise Problem(429, "Overloaded", "too many large requests at once; try again", headers=headers)

    def let_go(self, num_bytes: int) -> None:
        """Stop counting the body of a request."""
        self._num_bytes -= num_bytes

    async def in_slices(
        self, work: Callable[[Sequence[Any], int], list[Result]], items: Sequence[Any]
    ) -> list[Result]:
        """Return what ``work`` returns for all items; it runs on the tokeniser's thread, a slice at a time.

        Args:
            work: Receives some items and the index of the first.
        """
        loop, found = asyncio.get_running_loop(), []
        for first, some in slices(items):
            found += await loop.run_in_executor(self._tokeniser, work, some, first)
        return found

    def _loaded(self, name: str, folder: str) -> Served:
        served = Served.load(name, folder, self.place, is_exact=self.settings.exact)
        found: list[tuple[float, int]] = []
        failures: list[BaseException] = []

        def measure() -> None:
            try:
                runner.prepare_thread()
                found.append(served.measure(self.settings.batch_ms / 1000))
            except BaseException as error:
                failures.append(error)

        # On a thread of its own: a compute thread has another setting than the one that loads.
        usual = torch.get_num_threads()
        thread = threading.Thread(target=measure)
        thread.start()
        thread.join()
        torch.set_num_threads(usual)
        if failures:
            raise UserError(f"{name}: the model loads but cannot compute ({type(failures[0]).__name__})")
        served.speed, served.budget = found[0][0], self.settings.batch_tokens or found[0][1]
        return served

    def _take_in(self, served: Served) -> None:
        self.queue.set_model(served.name, tokens_per_s=served.speed, budget=served.budget)
        self.models[served.name] = served

    def _read_digests(self) -> None:
        for served in list(self.models.values()):
            served.read_sha256()

    def _count_batch(self, batch: Batch, seconds: float) -> None:
        self.metrics.batch(len(batch.units), batch.tokens, seconds)

    def _log_failure(self, error: Exception) -> None:
        self.log.event("the model failed on a text", failure=type(error).__name__)


def slices(items: Sequence[Any]) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield items, a few at a time and less of long ones, with the index of the first."""
    first = size = 0
    for index, item in enumerate(items):
        size += num_characters(item)
        if index > first and (index - first == SLICE or size > SLICE_CHARACTERS):
            yield first, items[first:index]
            first, size = index, num_characters(item)
    yield first, items[first:]


def num_characters(item: Any) -> int:
    """Return the characters of an item; an id counts as many as a token usually has."""
    if isinstance(item, str):
        return len(item)
    return sum(len(part) if isinstance(part, str) else CHARACTERS_PER_TOKEN for part in item)
