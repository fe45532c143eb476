"""A server behind a real socket, in a thread, and bytes to send to it."""

import io
import json
import socket
import threading
from typing import Any

from glassbert.serve.http.guard import GuardedProtocol
from glassbert.serve.http.log import Log
from glassbert.serve.http.server import Binding, Server


class LiveServer:
    """Serves an app on a free port of this machine until `stop`."""

    def __init__(self, app: Any, **binding: Any) -> None:
        self.lines = io.StringIO()
        self.is_bound = threading.Event()
        self.code: int | None = None
        self.server = Server(
            app, app, Binding(port=0, **binding), Log(self.lines), on_bound=self._note_address
        )
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        assert self.is_bound.wait(60)

    def _run(self) -> None:
        self.code = self.server.run()

    def _note_address(self, address: str) -> None:
        self.address = address
        self.port = int(address.rpartition(":")[2])
        self.is_bound.set()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def send(self, data: bytes) -> bytes:
        """Send bytes on a new connection; return all that comes until the server closes it."""
        with self.connect() as connection:
            connection.sendall(data)
            return read_all(connection)

    def post(self, path: str, content: Any, headers: str = "") -> tuple[int, bytes]:
        """Post JSON; return status and body."""
        answer = self.send(
            request_bytes(path, json.dumps(content).encode(), headers + "connection: close\r\n")
        )
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]) if head else 0, body

    def stop(self) -> None:
        loop = self.server.loop
        if loop and self.thread.is_alive():
            loop.call_soon_threadsafe(self.server.end)
        self.thread.join(60)
        assert not self.thread.is_alive()


def request_bytes(path: str, body: bytes = b"", headers: str = "", method: str = "POST") -> bytes:
    """Return the bytes of a decent request."""
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return (head + headers + f"content-length: {len(body)}\r\n\r\n").encode() + body


def read_all(connection: socket.socket) -> bytes:
    """Return everything until the other side closes."""
    found = b""
    try:
        while chunk := connection.recv(65536):
            found += chunk
    except ConnectionResetError:
        pass
    return found


class Hasty(GuardedProtocol):
    """The limits of a connection, with short times for tests."""

    head_seconds = 0.3
    body_seconds = 0.4
    read_seconds = 0.5
