"""The front: answers probes from the first moment, and passes requests on once the models are loaded.

Nothing here imports torch: the socket is open long before that is loaded.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from glassbert.inference.devices import Place
from glassbert.serve.http.encode import encoded
from glassbert.serve.http.keys import Hosts, Keys
from glassbert.serve.http.log import Log, Record
from glassbert.serve.http.problems import COHERE, KSERVE, NATIVE, OPENAI, TEI, Dialect, unavailable
from glassbert.serve.http.shell import App, Receive, Scope, Send, Shell
from glassbert.serve.metrics import Metrics
from glassbert.serve.names import named_models
from glassbert.serve.settings import ServeSettings

if TYPE_CHECKING:
    from glassbert.serve.service import Service

State = Literal["loading", "ready", "leaving", "draining"]
"""leaving: probes get "not ready", but requests that still arrive are answered."""

LIVE = ("/livez", "/v2/health/live")
READY = ("/readyz", "/v2/health/ready")
HEALTH = ("/health", "/ping", *filter(None, [os.environ.get("AIP_HEALTH_ROUTE", "")]))
"""The last one is where Vertex AI will ask."""
PROBES = (*LIVE, *READY, *HEALTH)
"""Paths that need no key and leave no line in the log."""


class Front:
    """An ASGI app whose models may still be loading."""

    def __init__(
        self,
        folders: Mapping[str, str],
        settings: ServeSettings | None = None,
        *,
        place: Place | None = None,
        read_keys: Callable[[], Keys] = Keys,
        hosts: Hosts | None = None,
        log: Log | None = None,
        has_open_metrics: bool = False,
    ) -> None:
        self.folders, self.settings = folders, settings or ServeSettings()
        self.place: Place = place or {"device": "auto", "precision": "float32"}
        self.log, self.metrics = log or Log(), Metrics()
        self.state: State = "loading"
        self.service: Service | None = None
        self._read_keys, self._keys = read_keys, read_keys()
        self._inner: App | None = None
        self._has_started = False
        self._num_active = 0
        self._shell = Shell(
            self._dispatch,
            keys=lambda: self._keys,
            hosts=hosts or Hosts(None),
            log=self.log,
            free=(*PROBES, "/metrics") if has_open_metrics else PROBES,
            quiet=(*PROBES, "/metrics"),
            dialect_of=dialect_of,
            on_end=self._count,
            is_leaving=lambda: self.state in ("leaving", "draining"),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._shell(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    def load(self) -> None:
        """Read keys and load the models, to be started afterwards, perhaps by forked processes."""
        from glassbert.serve.app import build_router
        from glassbert.serve.service import Service

        service = Service(self.folders, self.settings, self.place, self.log, self.metrics)
        keys = self._read_keys()
        service.load()
        self._inner, self.service, self._keys = build_router(service), service, keys

    def start(self) -> None:
        """Begin to answer, unless already begun; load the models first if necessary. Blocks until then."""
        if self._has_started:
            return
        if self.service is None:
            self.load()
        assert self.service
        self._has_started = True
        self.service.start()
        self._add_gauges(self.service)
        if self.state == "loading":  # unless it was asked to stop meanwhile
            self.state = "ready"

    def reload(self) -> None:
        """Read keys and models again; what cannot be read stays as it is, and the error is raised."""
        self._keys = self._read_keys()
        if self.service:
            self.service.reload()

    def leave(self) -> None:
        """Report that no more requests should be sent here."""
        self.state = "leaving"

    def refuse(self) -> None:
        """Answer no new request from now on."""
        self.state = "draining"

    def is_idle(self) -> bool:
        """Return whether every accepted request has its answer."""
        return self._num_active == 0

    def stop(self) -> None:
        """End what waits and stop the threads."""
        self.state = "draining"
        if self.service:
            self.service.stop()

    def has_given_up(self) -> bool:
        """Return whether the process should end and be started again."""
        return self.service is not None and self.service.workers.have_given_up()

    def problem(self) -> str | None:
        """Return why the server cannot answer now; None if it can."""
        if self.state != "ready":
            return f"the server is {self.state}"
        assert self.service
        return self.service.workers.problem()

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, is_get = scope["path"], scope["method"] in ("GET", "HEAD")
        if path in LIVE and is_get:
            await _say(send, {"live": True})
        elif path in READY and is_get:
            self._check()
            await _say(send, {"ready": True})
        elif (path in HEALTH or path == "/") and is_get:
            self._check()
            await _say(send, None)
        else:
            if self.state in ("loading", "draining") or self._inner is None:
                raise unavailable(f"the server is {self.state}; try again")
            self._num_active += 1
            try:
                await self._inner(scope, receive, send)
            finally:
                self._num_active -= 1

    def _check(self) -> None:
        if problem := self.problem():
            raise unavailable(problem)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            kind = (await receive())["type"]
            if kind == "lifespan.shutdown":
                self.stop()
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return

    def _count(self, record: Record) -> None:
        if record.route and record.route != "/metrics":
            self.metrics.answers.add(1, route=record.route, model=record.model, status=str(record.status))

    def _add_gauges(self, service: "Service") -> None:
        queue, gauge = service.queue, self.metrics.gauge
        gauge("te_queue_size", "Texts that wait.", lambda: [({}, queue.state().num_units)])
        gauge("glassbert_queue_tokens", "Tokens that wait.", lambda: [({}, queue.state().num_tokens)])
        gauge(
            "glassbert_queue_wait_estimate_seconds",
            "Estimated wait of a small request.",
            lambda: [({}, queue.state().wait_s)],
            "max",
        )
        gauge(
            "glassbert_speed_tokens_per_second",
            "Tokens per second of all threads.",
            lambda: [({"model": name}, queue.speed(name) * service.num_threads) for name in service.models],
        )
        gauge(
            "glassbert_model_info",
            "The served models.",
            lambda: [
                ({"model": one.name, "sha256": one.sha256 or "", "task": one.tasks[0]}, 1)
                for one in service.models.values()
            ],
            "max",
        )


async def _say(send: Send, value: object) -> None:
    body = b"" if value is None else encoded(value)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


_BEGINNINGS: tuple[tuple[str, Dialect], ...] = (
    ("/v1/embeddings", OPENAI),
    ("/v1/models", OPENAI),
    ("/embeddings", OPENAI),
    ("/v1", COHERE),
    ("/v2/embed", COHERE),
    ("/v2/rerank", COHERE),
    ("/v2", KSERVE),
    ("/classify", COHERE),
    *((path, NATIVE) for path in ("/tasks", "/tag", "/ner", "/answer", "/qa", "/fill", "/translate")),
)


def dialect_of(path: str) -> Dialect:
    """Return how errors look on a path that no route has answered: not ready, no key, not found."""
    if path.startswith("/models/"):
        path = "/" + path.removeprefix("/models/").partition("/")[2]
    return next((dialect for first, dialect in _BEGINNINGS if f"{path}/".startswith(f"{first}/")), TEI)


def build_app(models: Sequence[str | Path], settings: ServeSettings, place: Place | None = None) -> Front:
    """Return an app whose models are loaded."""
    front = Front(named_models(models), settings, place=place)
    front.start()
    return front
