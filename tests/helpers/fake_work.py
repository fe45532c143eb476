"""Work for the queue of the server that needs no model: groups that remember, fail or wait, and a clock."""

import threading
from collections.abc import Sequence
from typing import Any

from glassbert.serve.tickets import Part, Ticket, Unit


class Clock:
    """A clock that only tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Echo:
    """Answers with what it was given, and remembers each batch."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []

    def run(self, payloads: Sequence[Any]) -> Sequence[Any]:
        self.batches.append(list(payloads))
        return [f"<{payload}>" for payload in payloads]


class Picky(Echo):
    """Cannot stand one payload, alone or in company."""

    def run(self, payloads: Sequence[Any]) -> Sequence[Any]:
        if "bad" in payloads:
            raise RuntimeError("secret text")
        return super().run(payloads)


class Deadly(Echo):
    """Kills the thread that runs it."""

    def run(self, payloads: Sequence[Any]) -> Sequence[Any]:
        raise SystemExit


class Held(Echo):
    """Waits until a test lets it go."""

    def __init__(self) -> None:
        super().__init__()
        self.has_started, self.may_end = threading.Event(), threading.Event()

    def run(self, payloads: Sequence[Any]) -> Sequence[Any]:
        self.has_started.set()
        assert self.may_end.wait(60)
        return super().run(payloads)


def ticket(
    group: Any,
    *payloads: Any,
    tokens: int = 10,
    client: str = "a",
    model: str = "m",
    patience_s: float | None = None,
    **options: Any,
) -> Ticket:
    """Return a request of one unit per payload; a tuple is a text of several windows."""
    parts = [
        Part(
            [Unit(group, tokens, one) for one in (payload if isinstance(payload, tuple) else (payload,))],
            finish="".join,
        )
        for payload in payloads
    ]
    return Ticket(parts, model=model, client=client, patience_s=patience_s, **options)


def rows(done: Ticket) -> list[Any]:
    """Return the rows of a request."""
    return [part.row for part in done.parts]
