"""The output of the demo: steps with the verbs that do them, lines, and the numbers behind both."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from rich.console import Console
from rich.markup import escape

from glassbert.errors import Interrupted

SEED = 0


class Story:
    """Prints what the demo does, and keeps the numbers."""

    def __init__(self, *, is_silent: bool) -> None:
        self.console = Console(quiet=is_silent, highlight=False)
        self.numbers: dict[str, Any] = {"elapsed_s": {}}

    @contextmanager
    def step(self, title: str, verb: str) -> Iterator[None]:
        """Announce a step and the verb that does it; print how long it took."""
        elapsed_s = self.numbers["elapsed_s"]
        self.console.print(
            f"\n[bold]{len(elapsed_s) + 1}. {escape(title)}[/bold]   [dim]{escape(verb)}[/dim]",
            soft_wrap=True,
        )
        started_at = time.perf_counter()
        yield
        elapsed_s[title] = round(time.perf_counter() - started_at, 3)
        self.console.print(f"   [dim]{elapsed_s[title]:.1f} s[/dim]")

    def log(self, text: str, **numbers: Any) -> None:
        """Print a line; keep its numbers."""
        self.console.print(f"   {escape(text)}", soft_wrap=True)
        self.numbers |= numbers

    def log_all(self, lines: Iterable[str]) -> None:
        """Print several lines."""
        for line in lines:
            self.log(line)


class _Result(Protocol):
    @property
    def is_finished(self) -> bool: ...


_AnyResult = TypeVar("_AnyResult", bound=_Result)


def finished(result: _AnyResult) -> _AnyResult:
    """Return the result of a run; end the demo if a signal stopped the run."""
    if not result.is_finished:
        raise Interrupted("the demo was stopped before its end; run the same command again")
    return result
