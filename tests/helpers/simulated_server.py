"""The queue of the server at work on simulated time: no threads, no model, the same figures everywhere."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from glassbert.serve.queue import Batch, Limits, Overloaded, Queue
from glassbert.serve.tickets import Ticket
from helpers.fake_work import Clock, Echo, ticket

TOKENS_PER_S = 2500.0
"""Of one thread: all-MiniLM-L6-v2 on a usual core."""
BUDGET = 512
LARGE = 32
"""Texts of one request in 21; the others have one."""
TEXTS_PER_REQUEST = (20 + LARGE) / 21


@dataclass(frozen=True)
class Outcome:
    """What became of a request."""

    status: str
    """answered, refused, or the failure that ended it."""
    latency_s: float
    num_texts: int


@dataclass
class SimulatedServer:
    """A queue and its threads; requests have the lengths of sentences, paragraphs and long passages."""

    limits: Limits = field(default_factory=Limits)
    num_workers: int = 2
    slowness: float = 1.0
    """Of the machine, against what the queue was told."""
    seed: int = 1

    def __post_init__(self) -> None:
        self.clock, self.rng, self.outcomes = Clock(), random.Random(self.seed), list[Outcome]()
        self.queue = Queue(self.limits, num_workers=self.num_workers, clock=self.clock)
        self.queue.set_model("m", tokens_per_s=TOKENS_PER_S, budget=BUDGET)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number, self._free = count(), self.num_workers
        self._started_at = self.clock()

    @property
    def elapsed_s(self) -> float:
        return self.clock() - self._started_at

    def at(self, elapsed_s: float, event: Callable[[], None]) -> None:
        """Let something happen at a moment."""
        heapq.heappush(self._events, (elapsed_s, next(self._number), event))

    def run(self, until_s: float | None = None) -> None:
        """Let time pass, or let everything happen that will."""
        while self._events and (until_s is None or self._events[0][0] <= until_s):
            now, _, event = heapq.heappop(self._events)
            self.clock.now = self._started_at + now
            event()
        if until_s is not None:
            self.clock.now = self._started_at + until_s

    def ask(
        self,
        num_texts: int,
        *,
        patience_s: float | None = None,
        leaves_after_s: float | None = None,
        on_end: Callable[[Outcome], None] = lambda outcome: None,
    ) -> None:
        """Send a request now.

        Args:
            patience_s: How long the client says that it waits.
            leaves_after_s: When it leaves, said or not.
            on_end: Receives what became of the request.
        """
        sent_at = self.elapsed_s
        request = ticket(Echo(), *["x"] * num_texts, patience_s=patience_s)
        for unit in request.units:
            unit.group, unit.tokens = _GROUP, self._length()

        def end(status: str) -> None:
            outcome = Outcome(status, self.elapsed_s - sent_at, num_texts)
            self.outcomes.append(outcome)
            on_end(outcome)

        def notify(index: int | None) -> None:
            if index is None:
                end(type(request.error).__name__ if request.error else "answered")

        request.notify = notify
        try:
            self.queue.submit(request)
        except Overloaded:
            end("refused")
            return
        if leaves_after_s is not None:
            self.at(sent_at + leaves_after_s, lambda: self._leave(request))
        self._work()

    def _length(self) -> int:
        kind = self.rng.random()
        return self.rng.randint(10, 60) if kind < 0.75 else self.rng.randint(60, 200) if kind < 0.97 else 256

    def _leave(self, request: Ticket) -> None:
        if not request.is_over:
            self.queue.cancel(request)

    def _work(self) -> None:
        while self._free and (batch := self.queue.take(0)):
            self._free -= 1
            seconds = self.slowness * self.rng.uniform(0.8, 1.4) * batch.tokens / TOKENS_PER_S
            self.at(self.elapsed_s + seconds, lambda batch=batch: self._finish(batch))  # type: ignore[misc]

    def _finish(self, batch: Batch) -> None:
        for unit in batch.units:
            unit.ticket.deliver(unit, "x")
        self.queue.finish(batch)
        self._free += 1
        self._work()


_GROUP = Echo()


def sizes() -> Callable[[], int]:
    """Return what gives the number of texts of each request."""
    number = count(1)
    return lambda: LARGE if next(number) % 21 == 0 else 1


def saturation(server: SimulatedServer, seconds: float, num_clients: int = 32) -> float:
    """Return the requests per second that patient clients get answered, who ask again after each answer."""
    next_size = sizes()

    def ask() -> None:
        server.ask(next_size(), patience_s=server.limits.max_timeout_s, on_end=ask_again)

    def ask_again(outcome: Outcome) -> None:
        assert outcome.status == "answered"
        if server.elapsed_s < seconds:
            server.at(server.elapsed_s, ask)

    for _ in range(num_clients):
        server.at(0.0, ask)
    server.run()
    return len(server.outcomes) / server.elapsed_s


def flood(server: SimulatedServer, rate: float, seconds: float, leaves_after_s: float) -> None:
    """Send requests at random moments, ``rate`` a second on average, whether or not they are answered."""
    next_size, due = sizes(), server.elapsed_s
    ends_at = due + seconds
    while (due := due + server.rng.expovariate(rate)) < ends_at:
        server.at(due, lambda: server.ask(next_size(), leaves_after_s=leaves_after_s))
    server.run(ends_at)
