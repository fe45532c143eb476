"""Where lines for the user go: every function that has something to say takes a `log`."""

import sys
from collections.abc import Callable

Log = Callable[[str], None]
"""Receives lines for the user."""


def to_stderr(line: str) -> None:
    """Print a line where it does not mix with results."""
    print(line, file=sys.stderr)


def say_nothing(line: str) -> None:
    """Drop a line."""
