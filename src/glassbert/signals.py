"""Signals that ask a program to stop: Ctrl-C, SIGTERM, and SIGHUP when its terminal is closed."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from glassbert.start import STOPPING as STOPPING

Handler = Callable[[int, FrameType | None], Any]


@contextmanager
def handled_by(handler: Handler) -> Iterator[None]:
    """Let ``handler`` receive them inside the block; those that are ignored, as under nohup, stay ignored."""
    before = {}
    if threading.current_thread() is threading.main_thread():  # only it can handle signals
        for number in STOPPING:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, known in before.items():
            signal.signal(number, known)


@contextmanager
def held() -> Iterator[None]:
    """Delay signals until a few quick steps that belong together are done."""
    arrived: list[int] = []
    try:
        with handled_by(lambda number, frame: arrived.append(number)):
            yield
    finally:
        if arrived:
            signal.raise_signal(arrived[0])


_writes: list[object] = []


@contextmanager
def writing() -> Iterator[None]:
    """Mark something as half-written: it must be removed before the program ends."""
    _writes.append(None)
    try:
        yield
    finally:
        _writes.pop()


def is_writing() -> bool:
    """Return whether something is half-written."""
    return bool(_writes)


@contextmanager
def not_inherited() -> Iterator[None]:
    """Start processes that never see Ctrl-C, not even before their first line: their parent handles it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
