"""The page's app: the built files, and what they ask of the model. Everything lies below a random token."""

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, TypeVar

import msgspec
import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from glassbert.errors import UserError
from glassbert.glassbox.accounting_notes import Language
from glassbert.page.accounting import CHANGEABLE, accounting_for_page
from glassbert.page.experiments import experiments, run_experiment
from glassbert.page.files import INDEX, PageFile, read_page
from glassbert.page.workbench import GoneError, Workbench
from glassbert.serve.http.body import Disconnected, decode, read_body
from glassbert.serve.http.keys import Hosts, Keys
from glassbert.serve.http.log import Log
from glassbert.serve.http.problems import NATIVE, Problem, unavailable
from glassbert.serve.http.shell import App, Receive, Scope, Send, Shell, headers_of

MAX_BODY = 1 << 20
TOKEN_BYTES = 16
T = TypeVar("T")
# The page needs its own script and style, and pictures that it draws itself; nothing from elsewhere.
_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"
)


class TraceRequest(msgspec.Struct):
    """A text to record."""

    text: str
    pair: str | None = None


class LabRequest(msgspec.Struct):
    """An experiment to run."""

    name: str
    settings: dict[str, Any] = {}


class WhyRequest(msgspec.Struct):
    """An answer to explain."""

    text: str
    pair: str | None = None
    method: Literal["gradients", "occlusion", "heads", "layers", "rollout", "lens", "tokens"] = "gradients"
    target: str | None = None


class Page:
    """The app of one model."""

    def __init__(self, workbench: Workbench | None = None, *, token: str | None = None) -> None:
        """Make the app of a model.

        Args:
            workbench: The model; None as long as it is not loaded.
            token: The random part of the address; a new one when not given.
        """
        self.workbench = workbench
        self.is_closing = False
        self.token = token or secrets.token_urlsafe(TOKEN_BYTES)
        self.files: Mapping[str, PageFile] = read_page()
        # One thread: the model is asked one thing at a time, and what nobody waits for is never begun.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="page")
        self._posts = {"api/trace": self._trace, "api/lab": self._lab, "api/why": self._why}
        self._router = Router(routes=[Route(f"/{{token}}/{path}", end) for path, end in self._routes()])

    def _routes(self) -> list[tuple[str, Callable[[Request], Awaitable[Response]]]]:
        return [
            ("api/meta", self._meta),
            ("api/params", self._params),
            ("api/experiments", self._experiments),
            ("api/health", self._health),
            ("api/trace/{key}/tensor", self._tensor),
            ("api/trace/{key}/rows", self._rows),
            ("api/trace/{key}/heads", self._heads),
            ("api/trace/{key}/cell", self._cell),
            ("{path:path}", self._file),
        ]

    def close(self) -> None:
        """End the model's thread; what has not begun never does."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def _model(self) -> Workbench:
        if self.workbench is None or self.is_closing:
            raise unavailable("the model is not loaded yet; ask again in a moment", seconds=1)
        return self.workbench

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = headers_of(scope)
        self._admit(scope, headers)
        post = self._posts.get(scope["path"].removeprefix(f"/{self.token}/"))
        if post is None:
            await self._router(scope, receive, send)
            return
        if scope["method"] != "POST":
            raise Problem(405, "Validation", "expected POST", headers={"allow": "POST"})
        work = post(await read_body(receive, headers, MAX_BODY))
        response = _json(await self._while_connected(work, receive))
        await response(scope, receive, send)

    def _admit(self, scope: Scope, headers: Mapping[str, str]) -> None:
        given = scope["path"].split("/")[1]
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            raise Problem(403, "Unauthorized", "expected the token that `glassbert open` printed last")
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{headers.get('host', '')}":
            raise Problem(403, "Unauthorized", "this page answers only to itself, not to another origin")

    async def _run(self, work: Callable[[], T]) -> T:
        """Run ``work`` in the model's thread; errors of users become refusals."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except GoneError as error:
            raise Problem(410, "Validation", str(error)) from None
        except UserError as error:
            raise Problem(422, "Validation", str(error)) from None

    async def _while_connected(self, work: Callable[[], T], receive: Receive) -> T:
        """Run ``work`` unless its client leaves first: then it is not begun, or nobody is answered."""
        running = asyncio.ensure_future(self._run(work))
        left = asyncio.ensure_future(_until_left(receive))
        await asyncio.wait({running, left}, return_when=asyncio.FIRST_COMPLETED)
        left.cancel()
        if not running.done():
            running.cancel()
            raise Disconnected
        return running.result()

    def _trace(self, body: bytes) -> Callable[[], Any]:
        asked = decode(body, msgspec.json.Decoder(TraceRequest))
        return partial(self._model.record, asked.text, asked.pair)

    def _lab(self, body: bytes) -> Callable[[], Any]:
        asked = decode(body, msgspec.json.Decoder(LabRequest))
        return partial(run_experiment, asked.name, asked.settings, self._model.source)

    def _why(self, body: bytes) -> Callable[[], Any]:
        asked = decode(body, msgspec.json.Decoder(WhyRequest))
        return partial(self._model.why, asked.text, asked.pair, asked.method, asked.target)

    async def _meta(self, request: Request) -> Response:
        return _json(await self._run(self._model.meta))

    async def _experiments(self, request: Request) -> Response:
        return _json(await self._run(experiments))

    async def _health(self, request: Request) -> Response:
        return _json(await self._run(self._model.health))

    async def _params(self, request: Request) -> Response:
        query = request.query_params
        changes = {name: _whole(query[name], name) for name in CHANGEABLE if name in query}
        length = _whole(query["length"], "length") if "length" in query else None
        language: Language = "zh" if query.get("language") == "zh" else "en"
        source = query.get("source")
        if source and source not in self._model.presets:
            raise Problem(422, "Validation", f"source: no preset {source[:40]!r}")
        count = partial(accounting_for_page, source or self._model.source, changes, length, language)
        return _json(await self._run(count))

    async def _tensor(self, request: Request) -> Response:
        key, name = request.path_params["key"], request.query_params.get("name", "")
        part = _indices(request.query_params.get("slice", ""))
        return _bytes(request, await self._run(partial(self._model.tensor, key, name, part)))

    async def _rows(self, request: Request) -> Response:
        query = request.query_params
        side = "target" if query.get("side") == "target" else "token"
        token = _whole(query.get("token", "0"), "token")
        rows = partial(self._model.rows, request.path_params["key"], side, token)
        return _bytes(request, await self._run(rows))

    async def _heads(self, request: Request) -> Response:
        return _bytes(request, await self._run(partial(self._model.heads, request.path_params["key"])))

    async def _cell(self, request: Request) -> Response:
        key, name = request.path_params["key"], request.query_params.get("name", "")
        index = _indices(request.query_params.get("index", ""))
        return _json(await self._run(partial(self._model.cell, key, name, index)))

    async def _file(self, request: Request) -> Response:
        found = self.files.get(request.path_params["path"] or INDEX)
        if found is None:
            raise Problem(404, "Validation", "there is nothing at this address")
        headers = {"etag": found.etag, "cache-control": "no-cache", "content-security-policy": _POLICY}
        if request.headers.get("if-none-match") == found.etag:
            return Response(status_code=304, headers=headers)
        return Response(found.content, media_type=found.media_type, headers=headers)


def shelled(page: Page, log: Log) -> App:
    """Return the page inside the shell that every server of ours has."""
    hosts = Hosts.allowed("127.0.0.1")
    return Shell(page, keys=Keys, hosts=hosts, log=log, dialect_of=lambda path: NATIVE)


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _json(value: Any) -> Response:
    return Response(orjson.dumps(value), media_type="application/json", headers={"cache-control": "no-store"})


def _bytes(request: Request, content: bytes) -> Response:
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"etag": etag, "cache-control": "private, no-cache"}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="application/vnd.safetensors", headers=headers)


def _whole(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise Problem(422, "Validation", f"{name}: expected a whole number")
    return int(text)


def _indices(text: str) -> tuple[int, ...]:
    return tuple(_whole(one, "index") for one in text.split(",")) if text else ()
