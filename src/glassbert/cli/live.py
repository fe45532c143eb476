"""A training run on the terminal: a progress bar with the measurements below it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from glassbert.cli.output import messages

if TYPE_CHECKING:
    from glassbert.training.status import Status

# A step of a small model takes milliseconds: too fast to see.
_MIN_INTERVAL_S = 0.1


@contextmanager
def live_status() -> "Iterator[Callable[[Status], None] | None]":
    """Yield a function that draws each status; None if stderr is not a terminal, where lines are logged."""
    if not messages.is_terminal:
        yield None
        return
    display = _Display()
    try:
        yield display.on_status
    finally:
        display.close()


class _Display:
    """Redraws itself in place; log lines scroll by above. The last status stays when the run ends."""

    def __init__(self) -> None:
        # Draws nothing before the first status: the run may end with an error before it.
        self._live = Live(console=messages, auto_refresh=False)
        self._last: Status | None = None
        self._drawn_at = 0.0

    def on_status(self, status: "Status") -> None:
        self._last = status
        if not self._live.is_started:
            self._live.start()
        if time.monotonic() - self._drawn_at >= _MIN_INTERVAL_S:
            self._draw(status)

    def close(self) -> None:
        if self._last is not None:
            self._draw(self._last)
            self._live.stop()

    def _draw(self, status: "Status") -> None:
        self._drawn_at = time.monotonic()
        self._live.update(view(status), refresh=True)


def view(status: "Status") -> Group:
    """Return the picture of a status."""
    bar = Table.grid(padding=(0, 2), expand=True)
    bar.add_column(ratio=1)
    for _ in range(3):
        bar.add_column(no_wrap=True)
    share = status.share_done
    bar.add_row(
        ProgressBar(total=1.0, completed=share), f"{share:.0%}", status.position(), status.time_left()
    )
    return Group(bar, Text(status.results()), Text(status.machine()))
