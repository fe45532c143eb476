"""A training run on the terminal: a bar, and below it what the run measures."""

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

# A step of a small model takes milliseconds; eyes do not.
_MIN_INTERVAL_S = 0.1


@contextmanager
def live_readings() -> "Iterator[Callable[[Status], None] | None]":
    """Give what draws each reading; None when stderr is not a terminal, where lines are told instead."""
    if not messages.is_terminal:
        yield None
        return
    display = _Display()
    try:
        yield display.on_status
    finally:
        display.close()


class _Display:
    """Draws over itself; what is told meanwhile scrolls by above. It stays when the run ends."""

    def __init__(self) -> None:
        # Nothing is drawn before the first reading: a run may end with an error before it.
        self._live = Live(console=messages, auto_refresh=False)
        self._last: Status | None = None
        self._drawn_at = 0.0

    def on_status(self, reading: "Status") -> None:
        self._last = reading
        if not self._live.is_started:
            self._live.start()
        if time.monotonic() - self._drawn_at >= _MIN_INTERVAL_S:
            self._draw(reading)

    def close(self) -> None:
        if self._last is not None:
            self._draw(self._last)
            self._live.stop()

    def _draw(self, reading: "Status") -> None:
        self._drawn_at = time.monotonic()
        self._live.update(view(reading), refresh=True)


def view(reading: "Status") -> Group:
    """Return a reading as it is drawn."""
    bar = Table.grid(padding=(0, 2), expand=True)
    bar.add_column(ratio=1)
    for _ in range(3):
        bar.add_column(no_wrap=True)
    share = reading.share_done
    bar.add_row(
        ProgressBar(total=1.0, completed=share), f"{share:.0%}", reading.position(), reading.time_left()
    )
    return Group(bar, Text(reading.results()), Text(reading.machine()))
