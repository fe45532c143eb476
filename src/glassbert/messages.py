"""Where lines for the user go: every function that reports something takes a `log`.

`one_line` keeps the content of files and models from controlling a terminal or filling a log.
"""

import re
import sys
from collections.abc import Callable
from contextlib import suppress

Log = Callable[[str], None]
"""Receives lines for the user."""
MAX_LINE = 1000
"""Characters of a message; of a longer one, the middle is left out."""
# Control characters, line ends, changes of the writing direction, halves of characters.
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def one_line(text: str) -> str:
    """Return a message as one line of bounded length, with control characters written as escapes."""
    if len(text) > MAX_LINE:
        text = f"{text[: MAX_LINE // 2]} ... {text[5 - MAX_LINE // 2 :]}"
    if text.isprintable():
        return text
    return STEERING.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)[: 2 * MAX_LINE]


def to_stderr(line: str) -> None:
    """Print a line to stderr, where it does not mix with results; a closed stderr is not an error."""
    with suppress(OSError):
        print(one_line(line), file=sys.stderr or sys.__stderr__, flush=True)


def say_nothing(line: str) -> None:
    """Drop a line."""
