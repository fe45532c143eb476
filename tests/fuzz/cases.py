"""Hostile bytes: JSON with one wrong value, and bytes with a few wrong ones."""

import copy
import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

HOSTILE: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e300, -1e30, 2**31, 2**63, 10**30),
    *(float("nan"), float("inf"), "", " ", "a", "0", "-1", "1e9", "nan", "[MASK]", "a\nb", "\x1b[31m"),
    *("\ud800", "\u0000", "x" * 2000, "../x", "/dev/zero", "\u4e2d" * 40, [], {}, [[]], [None], {"a": 1}),
    *([1, 2], ["a"], [{}], {"0": "a"}, {"text": []}, [["a", "b", "c"]], [[0, 1, "a"]], [{"text": "a"}]),
]
"""Values that none of our files holds where they are put."""

TOKENS = [
    b"\n",
    b"\r\n",
    b"\t",
    b",",
    b'"',
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\x85",
    b"{",
    b"[",
    b"]" * 9,
]
TOKENS += [
    b"[" * 200,
    b"9" * 5000,
    b"= = =",
    b"\xe4\xb8\xad",
    b"\xd6\xd0\xb9\xfa",
    b"\x1f\x8b",
    b"1e999",
    b"\\ud800",
]


def paths(value: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every place in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    yield ()
    for key, item in items:
        yield from ((key, *rest) for rest in paths(item))


def replaced(value: Any, path: Sequence[Any], new: Any) -> Any:
    """Return a copy of ``value`` with ``new`` at the end of ``path``."""
    if not path:
        return new
    value = copy.copy(value)
    value[path[0]] = replaced(value[path[0]], path[1:], new)
    return value


def json_cases(*examples: Any) -> st.SearchStrategy[bytes]:
    """Draw JSON that differs from an example in a place or two, or in a few bytes."""
    places = [(example, path) for example in examples for path in paths(example)]

    @st.composite
    def case(draw: st.DrawFn) -> bytes:
        example, path = draw(st.sampled_from(places))
        value = replaced(example, path, draw(st.sampled_from(HOSTILE)))
        if draw(st.booleans()) and isinstance(value, dict | list) and value:
            value = replaced(value, draw(st.sampled_from(list(paths(value)))), draw(st.sampled_from(HOSTILE)))
        return json.dumps(value).encode()

    texts = [json.dumps(example).encode() for example in examples]
    return case() | byte_cases(*texts)


def json_lines(*examples: Any) -> st.SearchStrategy[bytes]:
    """Draw a few lines, some of them wrong."""
    good = st.sampled_from([json.dumps(example).encode() for example in examples])
    return st.lists(good | json_cases(*examples), min_size=1, max_size=5).map(b"\n".join)


def byte_cases(*examples: bytes) -> st.SearchStrategy[bytes]:
    """Draw bytes that differ from an example in a few places."""

    @st.composite
    def case(draw: st.DrawFn) -> bytes:
        data = draw(st.sampled_from(examples) | st.binary(max_size=60))
        for _ in range(draw(st.integers(0, 3))):
            at = draw(st.integers(0, len(data)))
            length = draw(st.integers(0, max(0, min(40, len(data) - at))))
            new = draw(st.sampled_from([b"", *TOKENS]) | st.binary(max_size=9))
            data = data[:at] + new + data[at + length :]
        return data

    return case()


def packed(cases: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Draw the same packed with gzip, some of it damaged, some of it a bomb."""
    bombs = st.sampled_from([b"\0" * 3_000_000, b"\n" * 3_000_000, b"ab " * 1_000_000])
    whole = st.one_of(cases, bombs).map(lambda data: gzip.compress(data, 6, mtime=0))
    return whole | whole.flatmap(lambda data: byte_cases(data)) | st.just(zlib.compress(b"not gzip"))
