"""Progress of long work: a listener follows it and may end it.

Work reports how far it is by looping over `each`. Without a listener that costs nothing and changes nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

T = TypeVar("T")
Listener = Callable[[float], None]
"""Receives the share of the work that is done, from 0 to 1; raises `Stopped` to end the work."""


class Stopped(Exception):
    """Raised by a listener to end the work."""


class _Stretch(NamedTuple):
    """The part of the work that the current loop does."""

    listener: Listener
    start: float
    stop: float


_stretch: ContextVar[_Stretch | None] = ContextVar("stretch", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Let ``listener`` know how far the work inside is, in this thread."""
    token = _stretch.set(_Stretch(listener, 0.0, 1.0))
    try:
        yield
    finally:
        _stretch.reset(token)


def each(items: Sequence[T]) -> Iterator[T]:
    """Yield the items and report before each how much is done; a nested loop divides its item."""
    outer = _stretch.get()
    if outer is None:
        yield from items
        return
    width = (outer.stop - outer.start) / max(1, len(items))
    try:
        for number, item in enumerate(items):
            start = outer.start + number * width
            outer.listener(start)
            _stretch.set(_Stretch(outer.listener, start, start + width))
            yield item
    finally:
        _stretch.set(outer)
