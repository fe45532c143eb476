"""What can be set about a server. Each field is an option of `serve` and has a twin in the environment."""

from dataclasses import dataclass
from typing import Annotated, Literal

from glassbert.ranges import PROCESSES, Bytes, Count, Range, SecondsAboveZero
from glassbert.typed import check_fields

OnLong = Literal["truncate", "window", "error"]
"""What to do with a text that is too long for the model."""


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """How models are served."""

    threads: Annotated[int, PROCESSES] | None = None
    """Compute threads; one for each core that this process may use when absent."""
    on_long: OnLong = "truncate"
    """Of a text that is too long: truncate it as the model was trained, read it in windows, or refuse it."""
    exact: bool = False
    """Compute each text alone: its answer is then the same to the last bit whatever else is asked."""
    timeout: SecondsAboveZero = 10.0
    """Seconds that a request may take beyond its own work, unless its headers name a shorter time."""
    max_timeout: SecondsAboveZero = 120.0
    """Seconds that any request may take."""
    max_wait: SecondsAboveZero = 2.0
    """Seconds that a request of up to 4 texts may be expected to wait in a burst; a quarter of that while
    more is asked than can be answered. Beyond that it gets 429 at once. A larger request may wait longer: as
    long as its headers say, or by as much as its own work takes."""
    batch_ms: Annotated[float, Range(0, 10**6, has_low=False)] = 100.0
    """Milliseconds that a batch should take at most; its size follows from the measured speed."""
    batch_tokens: Count | None = None
    """Tokens of a batch; measured when the server starts when absent."""
    max_texts: Count = 2048
    """Texts of a request."""
    max_body_bytes: Bytes = 8 * 1024 * 1024
    """Bytes of a request's body."""
    max_queued_bytes: Bytes = 64 * 1024 * 1024
    """Bytes of all bodies that are being worked on."""
    max_characters: Count = 400_000
    """Characters of a text that is read in windows."""
    max_windows: Count = 64
    """Windows of a text."""

    def __post_init__(self) -> None:
        check_fields(self)
