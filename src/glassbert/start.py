"""Handle signals from the first moment of the `glassbert` command: almost nothing is imported before.

Ctrl-C may arrive at once. Before this module runs, Python itself is starting, and we cannot handle it.
"""

import os
import signal

TYPE_CHECKING = False  # importing typing would cost more than the rest
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

EXIT_INTERRUPTED = 130
STOPPING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def handle_signals() -> None:
    """End at once when a signal asks for it; those that are ignored, as under nohup, stay ignored."""
    for number in STOPPING:
        if signal.getsignal(number) not in (signal.SIG_IGN, None):
            signal.signal(number, leave)


def leave(number: int, frame: "FrameType | None") -> "NoReturn":
    """End at once, while nothing is being written."""
    try:
        os.write(2, b"glassbert: interrupted\n")
    finally:
        os._exit(EXIT_INTERRUPTED)
