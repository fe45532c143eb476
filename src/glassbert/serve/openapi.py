"""The description of all routes as OpenAPI 3.1, made from the table of routes."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from glassbert.serve.routes import Route
from glassbert.version import __version__

_REF = "#/components/schemas/{name}"
_REASONS = {
    "400": "not JSON, or nothing to work on",
    "401": "no valid key",
    "403": "a Host that is not served",
    "404": "no such model",
    "413": "too long",
    "415": "not application/json",
    "422": "a field has a value that cannot be used; the message names it",
    "424": "the model does something else, or failed on a text",
    "429": "overloaded; Retry-After says when to come back",
    "503": "loading, draining or unwell",
    "504": "the deadline passed",
}
_WITHOUT_BODY = ("401", "403", "404", "503")


def describe(routes: Sequence[Route], *, has_keys: bool) -> dict[str, Any]:
    """Return the OpenAPI document."""
    types = [kind for route in routes for kind in (route.request, route.response) if kind is not None]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    found = iter(schemas)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        request = next(found) if route.request is not None else None
        response = next(found) if route.response is not None else None
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, request, response)
    return {
        "openapi": "3.1.0",
        "info": {"title": "glassbert", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}] if has_keys else [],
    }


def _operation(route: Route, request: Any, response: Any) -> dict[str, Any]:
    content = {"content": {"application/json": {"schema": response}}} if response is not None else {}
    codes = _REASONS if request is not None else _WITHOUT_BODY
    error = {"content": {"application/json": {"schema": {"type": "object"}}}}
    operation: dict[str, Any] = {
        "summary": route.summary,
        "tags": [route.dialect.name],
        "responses": {
            "200": {"description": route.summary, **content},
            **{code: {"description": _REASONS[code], **error} for code in codes},
        },
    }
    if route.is_free:
        operation["security"] = []
    names = re.findall(r"{(\w+)}", route.path)
    if names:
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    if request is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": request}}}
    return operation
