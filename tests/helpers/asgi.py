"""Requests to an app without a socket."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Response:
    """What an app has sent."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    chunks: list[bytes] = field(default_factory=list)

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """Sends requests to one app."""

    app: Any
    headers: Mapping[str, str] = field(default_factory=dict)

    def get(self, path: str, **headers: str) -> Response:
        return self.send("GET", path, None, headers)

    def post(self, path: str, content: Any, **headers: str) -> Response:
        """Post a value as JSON, or bytes as they are."""
        return self.send("POST", path, content, headers)

    def send(
        self, method: str, path: str, content: Any = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        return asyncio.run(self.sent(method, path, content, headers or {}))

    async def sent(
        self,
        method: str,
        path: str,
        content: Any,
        headers: Mapping[str, str],
        leaves: asyncio.Event | None = None,
    ) -> Response:
        """Return the response; the client leaves when ``leaves`` is set."""
        body = (
            content
            if isinstance(content, bytes)
            else b""
            if content is None
            else json.dumps(content).encode()
        )
        given = {"host": "localhost", "content-type": "application/json", **self.headers, **headers}
        scope = {
            "type": "http",
            "method": method,
            "path": path.partition("?")[0],
            "query_string": path.partition("?")[2].encode(),
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 1),
        }
        response, is_over = Response(), leaves or asyncio.Event()
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            await is_over.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                assert not response.status, "an answer began twice"
                response.status = message["status"]
                response.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                response.chunks.append(message["body"])

        await self.app(scope, receive, send)
        return response
