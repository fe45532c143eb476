"""The page's app: the built files, and their questions to the model. Everything lies below a random token."""

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from glassbert.errors import UserError
from glassbert.page.accounting import CHANGEABLE, accounting_for_page
from glassbert.page.experiments import experiments, run_experiment
from glassbert.page.files import INDEX, PageFile, read_page
from glassbert.page.limits import MAX_CHARACTERS
from glassbert.page.questions import GETS, POSTS, RUN_POSTS, Query, language_of, whole
from glassbert.page.refusals import PAGE, problem_of
from glassbert.page.run_folder import RunFolder, SavedRequest, run_events
from glassbert.page.work import Work, events_of
from glassbert.page.workbench import Workbench, health_of
from glassbert.sentence import Sentence
from glassbert.serve.http.body import decode, read_body
from glassbert.serve.http.encode import encoded
from glassbert.serve.http.keys import Hosts, Keys
from glassbert.serve.http.log import Log
from glassbert.serve.http.problems import Problem, unavailable
from glassbert.serve.http.shell import App, Receive, Scope, Send, Shell, headers_of
from glassbert.version import __version__

MAX_BODY = 1 << 20
EVENTS = "text/event-stream"
TOKEN_BYTES = 16
NO_MODEL: Mapping[str, Any] = {
    "model": "",
    "version": __version__,
    "kind": "run",
    "config": {},
    "examples": {language: {"text": "", "other": "", "pair": None} for language in ("en", "zh")},
    "other": None,
    "data": None,
    "limits": {"characters": MAX_CHARACTERS, "tokens": 0},
}
"""What the page knows of a run that has saved nothing yet."""
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


class Damage(NamedTuple):
    """A model that cannot be loaded, and why."""

    source: str
    reason: Sentence


class Page:
    """The app of one model."""

    def __init__(
        self,
        workbench: Workbench | None = None,
        *,
        token: str | None = None,
        new_bench: Callable[[str | Path], Workbench] = Workbench,
    ) -> None:
        """Make the app of a model.

        Args:
            workbench: The model; None as long as it is not loaded.
            token: The random part of the address; a new one when not given.
            new_bench: Loads another model, of a run that has saved several.
        """
        self.workbench = workbench
        self.run: RunFolder | None = None
        self.new_bench = new_bench
        self.damage: Damage | None = None
        self.is_closing = False
        self.token = token or secrets.token_urlsafe(TOKEN_BYTES)
        self.files: Mapping[str, PageFile] = read_page()
        # One thread: the model does one thing at a time, and work that nobody waits for is never started.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="page")
        self._posts: dict[str, Callable[[bytes], Callable[[], Any]]] = {
            "api/trace": self._trace,
            "api/lab": self._lab,
            "api/why": self._why,
            "api/health": self._health,
            "api/run/show": self._show_saved,
        }
        for path, (kind, ask) in POSTS.items():
            self._posts[f"api/{path}"] = partial(self._asked, kind, ask)
        for path, (kind, ask_run) in RUN_POSTS.items():
            self._posts[f"api/{path}"] = partial(self._asked_of_run, kind, ask_run)
        self._router = Router(routes=[Route(f"/{{token}}/{path}", end) for path, end in self._routes()])

    def _routes(self) -> list[tuple[str, Callable[[Request], Awaitable[Response]]]]:
        return [
            ("api/meta", self._meta),
            ("api/params", self._params),
            ("api/experiments", self._experiments),
            ("api/trace/{key}/tensor", self._tensor),
            ("api/trace/{key}/rows", self._rows),
            ("api/trace/{key}/heads", self._heads),
            ("api/trace/{key}/cell", self._cell),
            *((f"api/{path}", partial(self._ask, ask)) for path, ask in GETS.items()),
            ("{path:path}", self._file),
        ]

    def close(self) -> None:
        """End the model's thread; work that has not started never does."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def _model(self) -> Workbench:
        if self.workbench is None and self.damage is not None:
            raise Problem(
                422, "Validation", Sentence("{reason}; Health says more", reason=self.damage.reason)
            )
        if self.workbench is None or self.is_closing:
            raise unavailable("the model is not loaded yet; ask again in a moment", seconds=1)
        return self.workbench

    def _bench(self, request: Request) -> Workbench:
        """Return the model whose trace a request is about."""
        return self._model.bench_of(request.path_params["key"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = headers_of(scope)
        self._admit(scope, headers)
        path = scope["path"].removeprefix(f"/{self.token}/")
        if path == "api/run/events":
            await _send_events(run_events(self._run_folder, receive, lambda: self.is_closing), send)
            return
        post = self._posts.get(path)
        if post is None:
            await self._router(scope, receive, send)
            return
        if scope["method"] != "POST":
            raise Problem(405, "Validation", "expected POST", headers={"allow": "POST"})
        work = Work(post(await read_body(receive, headers, MAX_BODY)), self._thread)
        if EVENTS in headers.get("accept", ""):
            await _send_events(events_of(work, receive), send)
        else:
            await _json(await work.result(receive))(scope, receive, send)

    def _admit(self, scope: Scope, headers: Mapping[str, str]) -> None:
        given = f"{scope['path']}/".split("/")[1]  # the path of OPTIONS * has no slash
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            raise Problem(403, "Unauthorized", "expected the token that `glassbert open` printed last")
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{headers.get('host', '')}":
            raise Problem(403, "Unauthorized", "this page answers only to itself, not to another origin")

    async def _run(self, work: Callable[[], T]) -> T:
        """Run ``work`` in the model's thread; errors of users become refusals."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except UserError as error:
            raise problem_of(error) from None

    def _trace(self, body: bytes) -> Callable[[], Any]:
        asked = decode(body, msgspec.json.Decoder(TraceRequest))
        return partial(self._model.record, asked.text, asked.pair)

    def _lab(self, body: bytes) -> Callable[[], Any]:
        asked = decode(body, msgspec.json.Decoder(LabRequest))
        return partial(run_experiment, asked.name, asked.settings, self._model.source)

    def _why(self, body: bytes) -> Callable[[], Any]:
        asked = decode(body, msgspec.json.Decoder(WhyRequest))
        return partial(self._model.why, asked.text, asked.pair, asked.method, asked.target)

    def _asked(self, kind: type[Any], ask: Callable[[Workbench, Any], Any], body: bytes) -> Callable[[], Any]:
        return partial(ask, self._model, decode(body, msgspec.json.Decoder(kind)))

    def _asked_of_run(
        self, kind: type[Any], ask: Callable[[RunFolder, Any], Any], body: bytes
    ) -> Callable[[], Any]:
        return partial(ask, self._run_folder, decode(body, msgspec.json.Decoder(kind)))

    async def _ask(self, ask: Callable[[Workbench, Query], Any], request: Request) -> Response:
        query = {**request.query_params, **request.path_params}
        found = await self._run(partial(ask, self._model, query))
        if isinstance(found, str):
            headers = {
                "content-disposition": 'attachment; filename="glassbert.html"',
                "cache-control": "no-store",
            }
            return Response(found, media_type="text/html; charset=utf-8", headers=headers)
        return _bytes(request, found) if isinstance(found, bytes) else _json(found)

    @property
    def _run_folder(self) -> RunFolder:
        if self.run is None:
            raise Problem(404, "Validation", "no run is open; start the page with the folder of a run")
        return self.run

    def _show_saved(self, body: bytes) -> Callable[[], Any]:
        """Put another model of the run on the page."""
        folder = self._run_folder.folder(decode(body, msgspec.json.Decoder(SavedRequest)).saved)

        def show() -> dict[str, Any]:
            self.workbench = self.new_bench(folder)
            return self._about()

        return show

    def _about(self) -> dict[str, Any]:
        """Return what the page must know first; a run that has saved nothing yet has no model."""
        if self.run is None:
            return self._model.meta()
        newest = self.run.newest_model()
        if self.workbench is None and newest is not None:
            self.workbench = self.new_bench(newest)
        known = NO_MODEL if self.workbench is None else self.workbench.meta()
        return {**known, "run": self.run.name}

    async def _meta(self, request: Request) -> Response:
        return _json(await self._run(self._about))

    async def _experiments(self, request: Request) -> Response:
        return _json(await self._run(experiments))

    def _health(self, body: bytes) -> Callable[[], Any]:
        if self.workbench is None and self.damage is not None:
            return partial(health_of, self.damage.source)
        return self._model.health

    async def _params(self, request: Request) -> Response:
        query = request.query_params
        changes = {name: whole(query[name], name) for name in CHANGEABLE if name in query}
        length = whole(query["length"], "length") if "length" in query else None
        source = query.get("source")
        if source and source not in self._model.presets:
            raise Problem(422, "Validation", f"source: no preset {source[:40]!r}", code="no_preset")
        count = partial(
            accounting_for_page, source or self._model.source, changes, length, language_of(query)
        )
        return _json(await self._run(count))

    async def _tensor(self, request: Request) -> Response:
        key, name = request.path_params["key"], request.query_params.get("name", "")
        part = _indices(request.query_params.get("slice", ""))
        return _bytes(request, await self._run(partial(self._bench(request).tensor, key, name, part)))

    async def _rows(self, request: Request) -> Response:
        query = request.query_params
        side = "target" if query.get("side") == "target" else "token"
        token = whole(query.get("token", "0"), "token")
        rows = partial(self._bench(request).rows, request.path_params["key"], side, token)
        return _bytes(request, await self._run(rows))

    async def _heads(self, request: Request) -> Response:
        return _bytes(
            request, await self._run(partial(self._bench(request).heads, request.path_params["key"]))
        )

    async def _cell(self, request: Request) -> Response:
        key, name = request.path_params["key"], request.query_params.get("name", "")
        index = _indices(request.query_params.get("index", ""))
        return _json(await self._run(partial(self._bench(request).cell, key, name, index)))

    async def _file(self, request: Request) -> Response:
        found = self.files.get(request.path_params["path"] or INDEX)
        if found is None:
            raise Problem(404, "Validation", "there is nothing at this address")
        headers = {"etag": found.etag, "cache-control": "no-cache", "content-security-policy": _POLICY}
        if request.headers.get("if-none-match") == found.etag:
            return Response(status_code=304, headers=headers)
        return Response(found.content, media_type=found.media_type, headers=headers)


def in_shell(page: Page, log: Log) -> App:
    """Return the page inside the shell that all of our servers have."""
    hosts = Hosts.allowed("127.0.0.1")
    return Shell(page, keys=Keys, hosts=hosts, log=log, dialect_of=lambda path: PAGE)


async def _send_events(events: AsyncIterator[bytes], send: Send) -> None:
    """Send server-sent events as they arrive."""
    headers = [(b"content-type", EVENTS.encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async for one in events:
        await send({"type": "http.response.body", "body": one, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _json(value: Any) -> Response:
    return Response(encoded(value), media_type="application/json", headers={"cache-control": "no-store"})


def _bytes(request: Request, content: bytes) -> Response:
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"etag": etag, "cache-control": "private, no-cache"}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="application/vnd.safetensors", headers=headers)


def _indices(text: str) -> tuple[int, ...]:
    return tuple(whole(one, "index") for one in text.split(",")) if text else ()
