"""Limits below ASGI: what a connection may send before any of our code for requests runs.

uvicorn with httptools takes headers of any size and waits for a slow request forever. Middleware would see
such a request too late, or never.
"""

from asyncio import BaseTransport, TimerHandle, Transport
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 16 * 1024
HEAD_SECONDS = 5.0
BODY_SECONDS = 10.0
BODY_BYTES_PER_SECOND = 64 * 1024
"""A body may take `BODY_SECONDS`, and a second more for each of these."""
READ_SECONDS = 30.0
"""How long a client may leave our answer unread."""


class GuardedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with limits for head, body and time, and exactly one Host."""

    head_seconds = HEAD_SECONDS
    body_seconds = BODY_SECONDS
    read_seconds = READ_SECONDS

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._receiving: TimerHandle | None = None
        self._sending: TimerHandle | None = None
        self._num_head_bytes = 0
        self._is_in_head = True
        self._body_started_at = 0.0
        self._num_body_bytes = 0
        self._is_refused = False

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(cast(Transport, transport))
        self._allow(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._allow(None)
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused or self.transport.is_closing():
            return
        if self._is_in_head:
            # The head may end, and a body begin, in the middle of ``data``.
            self._num_head_bytes += len(data)
            end = data.find(b"\r\n\r\n")
            size = self._num_head_bytes if end < 0 else self._num_head_bytes - len(data) + end
            if size > HEAD_BYTES:
                self._refuse(b"431 Request Header Fields Too Large")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self._allow(self.head_seconds)

    def on_headers_complete(self) -> None:
        self._is_in_head, self._num_head_bytes = False, 0
        if sum(name == b"host" for name, _ in self.headers) != 1:
            self._refuse(b"400 Bad Request")
            return
        self._body_started_at, self._num_body_bytes = self.loop.time(), 0
        self._allow(self.body_seconds)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._num_body_bytes += len(body)
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._allow(None)
        self._is_in_head = True
        if not self._is_refused:
            super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._sending = self.loop.call_later(self.read_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        if self._sending:
            self._sending.cancel()
            self._sending = None
        super().resume_writing()

    def _allow(self, seconds: float | None) -> None:
        """Set how long the client may take for what it sends now; None while nothing is expected."""
        if self._receiving:
            self._receiving.cancel()
        self._receiving = None if seconds is None else self.loop.call_later(seconds, self._time_is_up)

    def _time_is_up(self) -> None:
        if not self._is_in_head:
            allowed = self.body_seconds + self._num_body_bytes / BODY_BYTES_PER_SECOND
            left = self._body_started_at + allowed - self.loop.time()
            if left > 0:
                self._allow(left)
                return
        self._refuse(b"408 Request Timeout")

    def _refuse(self, status: bytes) -> None:
        self._is_refused = True
        self._allow(None)
        if self.transport.is_closing():
            return
        # Once an answer has begun, another one would be read as part of it.
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(
                b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            )
        self.transport.close()
