"""What a route is, and the table of all of them: the app and /openapi.json are both made from it."""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from glassbert.serve.call import Call, Reply
from glassbert.serve.http.problems import Dialect

Handler = Callable[[Call, Any], Awaitable[Reply]]


@dataclass(frozen=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    dialect: Dialect
    handler: Handler
    response: Any
    """The type of the JSON that it answers with; None if the body is empty or not JSON."""
    request: Any = None
    """The type of the JSON that it takes; None without a body."""
    summary: str = ""
    is_inference: bool = True
    """Whether a model runs, so that the answer has the headers that count tokens."""
    is_free: bool = False
    """Whether it is answered without a key."""


def all_routes() -> list[Route]:
    """Return the routes of every dialect."""
    from glassbert.serve.dialects import cohere, hugging_face, info, kserve, main_route, native, openai, tei

    modules = (native, tei, openai, cohere, hugging_face, kserve, main_route, info)
    routes = [route for module in modules for route in module.ROUTES]
    # Vertex AI names its path in the environment.
    asked_at = os.environ.get("AIP_PREDICT_ROUTE", "")
    is_new = asked_at.startswith("/") and all(route.path != asked_at for route in routes)
    return [*routes, replace(main_route.VERTEX, path=asked_at)] if is_new else routes
