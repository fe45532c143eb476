"""Read the JSON body of a request: bounded in bytes, decoded into a type, refused in our own words."""

import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeVar

import msgspec

from glassbert.serve.http.problems import Problem, invalid

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
T = TypeVar("T")

_LENGTH_DIGITS = 18
_PLACE = re.compile(r"^(?P<reason>.*?)(?: - at `(?P<where>[^`]*)`)?$", re.DOTALL)


class Disconnected(Exception):
    """The client has left."""


async def read_body(receive: Receive, headers: Mapping[str, str], max_bytes: int) -> bytes:
    """Return the body of a request that must be JSON; stop reading as soon as it is too long."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        # A form on a foreign web page cannot send this type without a CORS preflight.
        raise _closing(415, "expected the header content-type: application/json")
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise _closing(415, "expected a body without content-encoding; send it uncompressed")
    too_long = _closing(413, f"expected a body of at most {max_bytes:,} bytes; send fewer texts at once")
    length = headers.get("content-length", "0")
    if length.isdecimal() and (len(length) > _LENGTH_DIGITS or int(length) > max_bytes):
        raise too_long
    chunks: list[bytes] = []
    num_bytes = 0
    has_more = True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunk = message.get("body", b"")
        num_bytes += len(chunk)
        if num_bytes > max_bytes:
            raise too_long
        chunks.append(chunk)
        has_more = message.get("more_body", False)
    return b"".join(chunks)


def decode(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Return the body as the decoder's type."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        found = _PLACE.match(str(error))
        assert found
        reason = found["reason"].replace("`", "")
        if "Invalid enum value" in reason or "Invalid value" in reason:
            reason = "not one of the allowed values"
        raise invalid(reason[:1].lower() + reason[1:], found["where"] or "$") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Problem(400, "Validation", "the body is not valid JSON in UTF-8") from None


def _closing(status: int, message: str) -> Problem:
    """Return a refusal before the body was read: the rest of it could be mistaken for the next request."""
    return Problem(status, "Validation", message, headers={"connection": "close"})
