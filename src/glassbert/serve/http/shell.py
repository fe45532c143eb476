"""What wraps each of our apps: Host check, keys, request ids, error objects, the access log.

Pure ASGI: nothing is hidden from the app, in particular not that its client has disconnected.
"""

import re
import secrets
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from traceback import extract_tb
from typing import Any

from glassbert.serve.http.body import Disconnected
from glassbert.serve.http.encode import encoded
from glassbert.serve.http.keys import Hosts, Keys
from glassbert.serve.http.log import Log, Record
from glassbert.serve.http.problems import Dialect, Problem

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

RECORD = "glassbert.record"
"""Where in the scope the record of a request is."""
DIALECT = "glassbert.dialect"
"""Where a route says in the scope how its errors look."""

_REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)
_TRACE_PARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


class Shell:
    """An app inside its shell."""

    def __init__(
        self,
        app: App,
        *,
        keys: Callable[[], Keys],
        hosts: Hosts,
        log: Log,
        free: Collection[str] = (),
        quiet: Collection[str] = (),
        dialect_of: Callable[[str], Dialect],
        on_end: Callable[[Record], None] = lambda record: None,
        is_leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        """Put ``app`` into a shell.

        Args:
            keys: Returns the keys that are valid now.
            free: Paths that need no key; every other path does.
            quiet: Paths that are not logged, such as those of probes.
            dialect_of: How errors look on a path.
            on_end: Sees each request when it has been answered.
            is_leaving: Whether the server is about to end, so that clients should connect elsewhere.
        """
        self.app, self.keys, self.hosts, self.log = app, keys, hosts, log
        self.free, self.quiet = frozenset(free), frozenset(quiet)
        self.dialect_of, self.on_end, self.is_leaving = dialect_of, on_end, is_leaving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = headers_of(scope)
        record = scope[RECORD] = new_record(scope, headers)
        answer = _Answer(send, record, headers.get("traceparent", ""), self.is_leaving)
        try:
            self._admit(scope["path"], headers, record)
            await self.app(scope, receive, answer)
        except Disconnected:
            record.status = record.status or 499  # nobody reads it; the log says that the client has left
        except Problem as problem:
            await self._refuse(scope, answer, problem)
        except CancelledError:
            raise
        except Exception as error:
            frame = extract_tb(error.__traceback__)[-1]
            record.failure = f"{type(error).__name__} in {frame.name}:{frame.lineno}"
            message = f"the server failed; its log has more under request {record.id}"
            await self._refuse(scope, answer, Problem(500, "Backend", message))
        finally:
            if scope["path"] not in self.quiet or record.failure:
                self.log.request(record)
            self.on_end(record)

    def _admit(self, path: str, headers: dict[str, str], record: Record) -> None:
        if not self.hosts.is_allowed(headers.get("host", "")):
            raise Problem(403, "Unauthorized", "this Host is not served here; see --allowed-hosts")
        keys = self.keys()
        if not keys or path in self.free:
            return
        name = keys.name_of(headers.get("authorization", ""))
        if name is None:
            message = "expected a valid key in the header authorization: Bearer KEY"
            challenge = {"www-authenticate": "Bearer"}
            raise Problem(401, "Unauthorized", message, code="invalid_api_key", headers=challenge)
        record.client = name

    async def _refuse(self, scope: Scope, answer: "_Answer", problem: Problem) -> None:
        if answer.has_started:
            return  # too late; break the connection, so that no client takes half an answer for all of it
        dialect: Dialect = scope.get(DIALECT) or self.dialect_of(scope["path"])
        body = encoded(dialect.error(problem, answer.record.id))
        headers = {"content-type": "application/json", **problem.headers, "content-length": str(len(body))}
        start = {
            "type": "http.response.start",
            "status": problem.status,
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        await answer(start)
        await answer({"type": "http.response.body", "body": body})


class _Answer:
    """Passes an answer on: adds the headers of every answer and remembers its status."""

    def __init__(self, send: Send, record: Record, trace_parent: str, is_leaving: Callable[[], bool]) -> None:
        self.send, self.record, self.is_leaving = send, record, is_leaving
        self.has_started = False
        self.headers = [(b"x-request-id", record.id.encode()), (b"x-content-type-options", b"nosniff")]
        if record.trace:
            self.headers.append((b"traceparent", trace_parent.encode()))

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_started = True
            self.record.status = message["status"]
            closing = [(b"connection", b"close")] if self.is_leaving() else []
            message = {**message, "headers": [*message.get("headers", ()), *self.headers, *closing]}
        await self.send(message)


def headers_of(scope: Scope) -> dict[str, str]:
    """Return the headers of a request by lower-case name; the last of equal names."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def new_record(scope: Scope, headers: dict[str, str]) -> Record:
    """Return the record of a request that has just arrived, with the client's id if it is well-formed."""
    wished = headers.get("x-request-id", "")
    trace = _TRACE_PARENT.fullmatch(headers.get("traceparent", ""))
    return Record(
        id=wished if _REQUEST_ID.fullmatch(wished) else secrets.token_hex(8),
        peer=(scope.get("client") or ("",))[0],
        trace=trace[1] if trace else "",
    )
