"""The life of a server: bind first, be ready later, drain before the end."""

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import uvicorn

from glassbert.serve.http.guard import GuardedProtocol
from glassbert.serve.http.listen import address_of, listen
from glassbert.serve.http.log import Log
from glassbert.serve.http.notify import notify, notify_reloading, watchdog_interval_s

MAX_CONNECTIONS = 1024
IDLE_SECONDS = 75
"""Longer than a proxy keeps a connection: it must not send a request into one that is just being closed."""
RETIRE_SECONDS = IDLE_SECONDS + 15
"""By then every idle connection has been closed."""
POLL_SECONDS = 0.02


class Backend(Protocol):
    """The part that does the work behind an app."""

    def start(self) -> None:
        """Get ready; runs on a thread while the socket is open already."""

    def reload(self) -> None:
        """Read again what may have changed; an error leaves everything as it was."""

    def leave(self) -> None:
        """Tell probes that no more requests should be sent here."""

    def refuse(self) -> None:
        """Accept no new request."""

    def is_idle(self) -> bool:
        """Return whether all accepted requests are answered."""

    def stop(self) -> None:
        """End what is left."""

    def has_given_up(self) -> bool:
        """Return whether only a new process can help."""


@dataclass(frozen=True, kw_only=True)
class Binding:
    """Where a server listens, and how it ends."""

    host: str = "127.0.0.1"
    port: int = 8080
    """0: any free port."""
    drain_delay: float = 0.0
    """Seconds to keep accepting after SIGTERM, until a load balancer has noticed."""
    drain_timeout: float = 25.0
    """Seconds for accepted requests to be answered."""


class _Uvicorn(uvicorn.Server):
    """uvicorn without its own handling of signals, which closes the socket at once."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class Server:
    """An app, its backend and its socket."""

    def __init__(
        self,
        app: Any,
        backend: Backend,
        binding: Binding,
        log: Log,
        *,
        on_bound: Callable[[str], None] = lambda address: None,
    ) -> None:
        self.backend, self.binding, self.log, self.on_bound = backend, binding, log, on_bound
        self._uvicorn = _Uvicorn(
            uvicorn.Config(
                app,
                http=GuardedProtocol,
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                log_level="critical",
                server_header=False,
                proxy_headers=False,
                limit_concurrency=MAX_CONNECTIONS,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=5,
            )
        )
        self.loop: asyncio.AbstractEventLoop | None = None
        """While it runs."""
        self._num_signals = 0
        self._failure: BaseException | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, *, ends_with_terminal: bool = False) -> int:
        """Serve until a signal or until the backend gives up; return the exit code.

        Args:
            ends_with_terminal: End with SIGHUP, unless it is ignored as under nohup; otherwise it reloads.
        """
        sockets = listen(self.binding.host, self.binding.port)
        handlers: dict[int, Callable[[], None]] = {signal.SIGTERM: self.end, signal.SIGINT: self.end}
        if not ends_with_terminal:
            handlers[signal.SIGHUP] = self.reload
        elif signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            handlers[signal.SIGHUP] = self.end
        self.on_bound(address_of(sockets[0]))
        return self.run_on(sockets, handlers)

    def run_on(self, sockets: list[socket.socket], handlers: Mapping[int, Callable[[], None]]) -> int:
        """Serve on sockets that listen already; each signal has its handler."""
        is_main = threading.current_thread() is threading.main_thread()  # only it can handle signals
        before = {number: signal.getsignal(number) for number in handlers if is_main}
        try:
            asyncio.run(self._serve(sockets, handlers if is_main else {}))
        finally:
            for number, known in before.items():  # a loop leaves the system's, which kill
                signal.signal(number, known)
        if self._failure is not None:
            raise self._failure
        if self.backend.has_given_up():
            self.log.event("compute threads keep dying, or hang; start the server again")
            return 1
        return 0

    async def _serve(self, sockets: list[socket.socket], handlers: Mapping[int, Callable[[], None]]) -> None:
        loop = self.loop = asyncio.get_running_loop()
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        self._spawn(self._start())
        self._spawn(self._watch())
        await self._uvicorn.serve(sockets=sockets)
        await loop.run_in_executor(None, self.backend.stop)
        for task in list(self._tasks):
            task.cancel()

    @property
    def num_connections(self) -> int:
        """Connections that are open."""
        return len(self._uvicorn.server_state.connections)

    def end(self) -> None:
        """Drain and end; when called again, end now."""
        self._num_signals += 1
        if self._num_signals > 1:
            os._exit(130)
        self._spawn(self._drain())

    def reload(self) -> None:
        """Read again what the backend has read; requests are answered all the while."""
        self._spawn(self._reload())

    def retire(self) -> None:
        """Take no new connection, answer on those that are open until their clients leave, and end.

        Each answer asks its client to connect again: to the server that listens on this address by then.
        """
        self._spawn(self._retire())

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self) -> None:
        try:
            await asyncio.to_thread(self.backend.start)
            self.log.event("ready")
            notify("READY=1")
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._failure = error
            self._uvicorn.should_exit = True

    async def _reload(self) -> None:
        notify_reloading()
        try:
            await asyncio.to_thread(self.backend.reload)
            self.log.event("reloaded")
        except Exception as error:
            # Our own message would name folders, which do not belong in the log.
            self.log.event("not reloaded; the models from before still answer", failure=type(error).__name__)
        finally:
            notify("READY=1")

    async def _retire(self) -> None:
        self.backend.leave()
        for server in self._uvicorn.servers:
            server.close()
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + RETIRE_SECONDS
        while self.num_connections and loop.time() < ends_at:
            await asyncio.sleep(POLL_SECONDS)
        await self._drain()

    async def _drain(self) -> None:
        self.log.event("draining")
        notify("STOPPING=1")
        loop = asyncio.get_running_loop()
        self.backend.leave()
        await asyncio.sleep(self.binding.drain_delay)
        self.backend.refuse()
        ends_at = loop.time() + self.binding.drain_timeout
        while loop.time() < ends_at and not self.backend.is_idle():
            await asyncio.sleep(POLL_SECONDS)
        await asyncio.to_thread(self.backend.stop)  # requests that still wait get an answer
        self._uvicorn.should_exit = True

    async def _watch(self) -> None:
        interval_s = watchdog_interval_s()
        while not self.backend.has_given_up():
            await asyncio.sleep(min(1.0, interval_s or 1.0))
            if interval_s:
                notify("WATCHDOG=1")
        self._uvicorn.should_exit = True
