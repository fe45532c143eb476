"""JSON as our servers write it."""

from typing import Any

import orjson

from glassbert.parsing import json_text


def encoded(value: Any) -> bytes:
    """Return a value as JSON; NaN is null."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:  # a file name that is not UTF-8, or a whole number of more than 64 bits
        return json_text(value).encode("utf-8")
