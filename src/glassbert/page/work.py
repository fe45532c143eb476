"""Work that a client waits for: the client gets its progress, and ends it by disconnecting."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from typing import Any

from glassbert.errors import UserError
from glassbert.page.refusals import as_json, problem_of
from glassbert.progress import Stopped, listening
from glassbert.serve.http.body import Disconnected
from glassbert.serve.http.encode import encoded
from glassbert.serve.http.problems import Problem
from glassbert.serve.http.shell import Receive

REPORT_SECONDS = 0.1
"""Progress is sent no more often than this."""


class Work:
    """One thing that the model's thread does for one client."""

    def __init__(self, run: Callable[[], Any], thread: Executor) -> None:
        """Begin it as soon as the thread is free."""
        self._run, self._loop = run, asyncio.get_running_loop()
        self._shares: asyncio.Queue[float] = asyncio.Queue()
        self._is_wanted, self._reported_at = True, 0.0
        self._done = self._loop.run_in_executor(thread, self._listened)

    async def result(self, receive: Receive) -> Any:
        """Return the result unless the client leaves first."""
        async for _ in self.progress(receive):
            pass
        return self.found()

    async def progress(self, receive: Receive) -> AsyncIterator[float]:
        """Yield how much is done until all of it is; the work ends when the client leaves."""
        left = asyncio.ensure_future(until_left(receive))
        share = asyncio.ensure_future(self._shares.get())
        try:
            while not self._done.done():
                await asyncio.wait({self._done, left, share}, return_when=asyncio.FIRST_COMPLETED)
                if left.done() and not self._done.done():
                    raise Disconnected
                if share.done():
                    yield share.result()
                    share = asyncio.ensure_future(self._shares.get())
        finally:
            self._is_wanted = False
            self._done.cancel()  # never started, if it was still waiting for the thread
            left.cancel()
            share.cancel()

    def found(self) -> Any:
        """Return the result; errors of users are refusals."""
        try:
            return self._done.result()
        except UserError as error:
            raise problem_of(error) from None

    def _listened(self) -> Any:
        with listening(self._report):
            return self._run()

    def _report(self, share: float) -> None:
        if not self._is_wanted:
            raise Stopped
        now = time.monotonic()
        if now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = now
            self._loop.call_soon_threadsafe(self._shares.put_nowait, share)


async def until_left(receive: Receive) -> None:
    """Wait until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


def event(name: str, value: Any) -> bytes:
    """Return a server-sent event."""
    return b"event: " + name.encode() + b"\ndata: " + encoded(value) + b"\n\n"


async def events_of(work: Work, receive: Receive) -> AsyncIterator[bytes]:
    """Yield progress events, and at the end the result or why there is none."""
    async for share in work.progress(receive):
        yield event("progress", {"share": share})
    try:
        yield event("result", work.found())
    except Problem as problem:
        yield event("problem", as_json(problem))
