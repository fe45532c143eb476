"""What the server reports about itself: /info, /metrics and the description of all routes."""

import time
from typing import Any

from msgspec import Struct

from glassbert.serve.call import Call, Reply, json_reply
from glassbert.serve.front import HEALTH, LIVE, READY
from glassbert.serve.http.problems import KSERVE, TEI
from glassbert.serve.openapi import describe
from glassbert.serve.routes import Handler, Route, all_routes
from glassbert.serve.served import Served
from glassbert.version import __version__

_STARTED_AT = time.monotonic()


class Info(Struct):
    """The keys of text-embeddings-inference, and ours."""

    model_id: str
    model_sha: str | None
    model_dtype: str
    served_model_name: str
    model_type: dict[str, Any]
    max_concurrent_requests: int
    max_input_length: int
    max_batch_tokens: int
    max_batch_requests: int | None
    max_client_batch_size: int
    auto_truncate: bool
    tokenization_workers: int
    version: str
    sha: str | None
    docker_label: str | None
    tasks: list[str]
    labels: list[str]
    calibrated: bool
    sha256: str | None
    limits: dict[str, Any]
    speed_tokens_per_second: float
    batch_tokens: int
    threads: int
    uptime: float


def _model_type(served: Served) -> dict[str, Any]:
    if served.labels:
        names = dict(enumerate(served.labels))
        maps = {"id2label": names, "label2id": {label: index for index, label in names.items()}}
        return {served.kind: maps}
    return {
        served.kind: {} if served.kind == "translator" else {"pooling": "+".join(served.model.pooling.modes)}
    }


async def info(call: Call, asked: None) -> Reply:
    served, service, settings = call.served, call.service, call.service.settings
    limits = {
        "timeout": settings.timeout,
        "max_timeout": settings.max_timeout,
        "max_body_bytes": settings.max_body_bytes,
        "max_characters": settings.max_characters,
        "max_windows": settings.max_windows,
    }
    return json_reply(
        {
            "model_id": served.name,
            "model_sha": None,
            "model_dtype": served.loaded.precision,
            "served_model_name": served.name,
            "model_type": _model_type(served),
            "max_concurrent_requests": 1024,
            "max_input_length": served.max_length,
            "max_batch_tokens": served.budget,
            "max_batch_requests": None,
            "max_client_batch_size": settings.max_texts,
            "auto_truncate": settings.on_long == "truncate",
            "tokenization_workers": 1,
            "version": __version__,
            "sha": None,
            "docker_label": None,
            "tasks": served.tasks,
            "labels": served.labels,
            "calibrated": served.task is not None and served.task.temperature != 1.0,
            "sha256": served.sha256,
            "limits": limits,
            "speed_tokens_per_second": round(service.queue.speed(served.name) * service.num_threads, 1),
            "batch_tokens": served.budget,
            "threads": service.num_threads,
            "uptime": round(time.monotonic() - _STARTED_AT, 3),
        }
    )


async def metrics(call: Call, asked: None) -> Reply:
    return Reply(call.service.metrics.render().encode(), "text/plain; version=0.0.4; charset=utf-8")


async def openapi(call: Call, asked: None) -> Reply:
    return json_reply(describe(all_routes(), has_keys=bool(call.record.client)))


class Live(Struct):
    live: bool


class Ready(Struct):
    ready: bool


async def health(call: Call, asked: None) -> Reply:
    """Answer for one model below /models/NAME; the front answers for the server."""
    return Reply(b"")


async def live(call: Call, asked: None) -> Reply:
    return json_reply({"live": True})


async def ready(call: Call, asked: None) -> Reply:
    return json_reply({"ready": True})


def _probe(path: str, handler: Handler, response: Any, summary: str) -> Route:
    dialect = KSERVE if path.startswith("/v2") else TEI
    return Route("GET", path, dialect, handler, response, summary=summary, is_inference=False, is_free=True)


ROUTES = [
    *(_probe(path, live, Live, "Whether the process lives") for path in LIVE),
    *(_probe(path, ready, Ready, "Whether requests are answered") for path in READY),
    *(_probe(path, health, None, "Whether requests are answered") for path in HEALTH),
    Route("GET", "/info", TEI, info, Info, summary="What is served, and its limits", is_inference=False),
    Route("GET", "/metrics", TEI, metrics, None, summary="Numbers for Prometheus", is_inference=False),
    *(
        Route("GET", path, TEI, openapi, dict[str, Any], summary="This description", is_inference=False)
        for path in ("/openapi.json", "/api-doc/openapi.json")
    ),
]
