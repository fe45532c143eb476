"""The app: the table of routes over the models at work."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
from starlette.exceptions import HTTPException
from starlette.routing import Route as PathRoute
from starlette.routing import Router

from glassbert.serve.call import Call, Reply, find_model
from glassbert.serve.http.body import Disconnected, decode, read_body
from glassbert.serve.http.problems import Problem
from glassbert.serve.http.shell import DIALECT, RECORD, App, Receive, Scope, Send, headers_of
from glassbert.serve.routes import Route, all_routes
from glassbert.serve.service import Service

_REASONS = {
    400: "validation",
    413: "validation",
    415: "validation",
    422: "validation",
    424: "inference",
    429: "overloaded",
    503: "overloaded",
    504: "dropped",
}


class Endpoint:
    """One path: its methods, and what they do with a request."""

    def __init__(self, service: Service, routes: Mapping[str, Route]) -> None:
        self.service, self.routes = service, routes
        self.decoders = {
            method: msgspec.json.Decoder(route.request)
            for method, route in routes.items()
            if route.request is not None
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        route = self.routes[method]
        scope[DIALECT] = route.dialect
        call = self._call(route, scope, receive)
        size = 0
        try:
            asked = None
            if method in self.decoders:
                body = await read_body(receive, call.headers, self.service.settings.max_body_bytes)
                size = len(body)
                self.service.hold(size)
                asked = decode(body, self.decoders[method])
            reply = await route.handler(call, asked)
            await _send(reply, call if route.is_inference else None, send)
        except Problem as problem:
            self._count(problem)
            raise
        except Disconnected:
            self.service.metrics.cancelled.add()
            self.service.metrics.failures.add(err="dropped")
            raise
        finally:
            self.service.let_go(size)

    def _call(self, route: Route, scope: Scope, receive: Receive) -> Call:
        record, parameters = scope[RECORD], scope.get("path_params", {})
        record.route = route.path
        named = parameters.get("model")
        served = (
            next(iter(self.service.models.values())) if named is None else find_model(self.service, named)
        )
        record.model = served.name
        return Call(self.service, served, route.dialect, record, headers_of(scope), receive, parameters)

    def _count(self, problem: Problem) -> None:
        metrics, reason = self.service.metrics, _REASONS.get(problem.status)
        if problem.code == "wrong_task":
            reason = "model_type"
        elif problem.code == "batch_size":
            reason = "batch_size"
        elif problem.kind == "Tokenizer":
            reason = "tokenization"
        if problem.code == "deadline":
            metrics.expired.add()
        if reason:
            metrics.failures.add(err=reason)


async def _send(reply: Reply, call: Call | None, send: Send) -> None:
    counts = call.counts() if call else {}
    headers = {"content-type": reply.media_type, **reply.headers, **counts}
    if isinstance(reply.content, bytes):
        headers["content-length"] = str(len(reply.content))
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": 200, "headers": encoded})
    if isinstance(reply.content, bytes):
        await send({"type": "http.response.body", "body": reply.content})
        return
    async for chunk in reply.content:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def build_router(service: Service, routes: Sequence[Route] | None = None) -> App:
    """Return the app over all routes; each also exists below /models/NAME."""
    by_path: dict[str, dict[str, Route]] = defaultdict(dict)
    for route in routes or all_routes():
        by_path[route.path][route.method] = route
    paths = [
        PathRoute(path, Endpoint(service, methods), methods=list(methods))
        for path, methods in by_path.items()
    ]
    for path, methods in by_path.items():
        if "{model}" not in path:
            # Clients post to the base URL itself, with or without a slash at its end.
            for end in ("", "/") if path == "/" else (path,):
                endpoint = Endpoint(service, methods)
                paths.append(PathRoute(f"/models/{{model}}{end}", endpoint, methods=list(methods)))
    router = Router(paths, redirect_slashes=False)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = router  # so that an unknown path raises instead of being answered in plain text
        try:
            await router(scope, receive, send)
        except HTTPException as error:
            if error.status_code == 405:
                message = f"this path does not take {scope['method']}"
                allowed = {"allow": (error.headers or {}).get("Allow", "")}
                raise Problem(405, "Validation", message, headers=allowed) from None
            raise Problem(404, "Validation", "no such route; /openapi.json lists all of them") from None

    return app
