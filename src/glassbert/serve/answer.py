"""The answer to a request while a client waits for it: rows as they arrive, disconnects, a deadline."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from glassbert.serve.http.body import Disconnected, Receive
from glassbert.serve.problems import problem_of
from glassbert.serve.queue import Queue
from glassbert.serve.rows import AnyRow
from glassbert.serve.tickets import Expired, Part, Ticket


@dataclass(frozen=True)
class Asker:
    """The client of a request: who asks, how long they wait, and how a disconnect is noticed."""

    client: str
    receive: Receive
    patience_s: float | None = None


class Answer:
    """The rows of a request, as they arrive."""

    def __init__(
        self, queue: Queue, parts: Sequence[Part], model: str, asker: Asker, should_stream: bool
    ) -> None:
        self.queue, self.asker = queue, asker
        self.tokenise_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._has_news = asyncio.Event()
        self._should_stream = should_stream
        self.ticket = Ticket(
            parts,
            model=model,
            client=asker.client,
            patience_s=asker.patience_s,
            notify=self._notify,
            stops_at_error=not should_stream,
        )

    async def rows(self, field: str = "inputs") -> list[AnyRow]:
        """Return the row of each text; raise `Problem` if there is none.

        Args:
            field: Of the request, where the texts were.
        """
        async with self._watching() as until:
            await until(lambda: self.ticket.is_over)
        if self.ticket.error:
            raise problem_of(self.ticket.error, field)
        return [part.row for part in self.ticket.parts]

    async def stream(self) -> AsyncIterator[AnyRow | None]:
        """Yield the row of each text, in order, as soon as it is ready; None for one that failed."""
        async with self._watching() as until:
            for part in self.ticket.parts:
                await until(lambda part=part: part.is_done or self.ticket.is_over)  # type: ignore[misc]
                if not part.is_done:
                    assert self.ticket.error
                    raise problem_of(self.ticket.error)
                yield part.row

    @property
    def queue_s(self) -> float:
        """Seconds until the first unit was taken."""
        return (self.ticket.taken_at or self.queue.clock()) - self.ticket.submitted_at

    @property
    def infer_s(self) -> float:
        """Seconds since then."""
        return self.queue.clock() - (self.ticket.taken_at or self.queue.clock())

    def _notify(self, index: int | None) -> None:
        """Wake the event loop; called by compute threads."""
        if index is None or self._should_stream:
            try:
                self._loop.call_soon_threadsafe(self._has_news.set)
            except RuntimeError:
                return  # the loop has ended, and nobody waits any more

    def _watching(self) -> "_Watch":
        return _Watch(self)


class _Watch:
    """Notices, while an answer is awaited, that the client disconnects or that its time is up."""

    def __init__(self, answer: Answer) -> None:
        self.answer, self.ticket, self.queue = answer, answer.ticket, answer.queue

    async def __aenter__(self) -> Callable[[Callable[[], bool]], Awaitable[None]]:
        self._left = asyncio.ensure_future(_leaves(self.answer.asker.receive))
        return self._until

    async def __aexit__(self, *error: object) -> None:
        self._left.cancel()
        self.queue.cancel(self.ticket)  # does nothing if it is over

    async def _until(self, is_met: Callable[[], bool]) -> None:
        news = self.answer._has_news
        while not is_met():
            news.clear()
            if is_met():
                return
            waiter = asyncio.ensure_future(news.wait())
            left_s = self.ticket.expires_at - self.queue.clock()
            await asyncio.wait({waiter, self._left}, timeout=max(left_s, 0), return_when="FIRST_COMPLETED")
            waiter.cancel()
            if self._left.done():
                raise Disconnected
            if self.queue.clock() >= self.ticket.expires_at:
                self.queue.cancel(self.ticket, Expired())


async def _leaves(receive: Receive) -> None:
    """Return once the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
