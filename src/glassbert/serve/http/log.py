"""The log: one line of JSON for each request and for each event. No texts, no paths, no keys."""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TextIO

from glassbert.serve.http.encode import encoded


@dataclass
class Record:
    """What is known of a request while it is worked on; it becomes its line in the log."""

    id: str
    route: str = ""
    client: str = ""
    """The name of its key; empty without one."""
    peer: str = ""
    """The client's address; not logged."""
    model: str = ""
    status: int = 0
    started_at: float = field(default_factory=time.monotonic)
    numbers: dict[str, float] = field(default_factory=dict)
    """Counts and milliseconds: texts, tokens, truncated, queue_ms, ..."""
    trace: str = ""
    """The trace id of a traceparent header."""
    failure: str = ""
    """The type of an unexpected exception."""

    def to_json(self) -> dict[str, Any]:
        named = {"route": self.route, "model": self.model, "status": self.status, "key": self.client}
        numbers = {name: round(value, 3) for name, value in self.numbers.items()}
        last = {"trace": self.trace, "failure": self.failure}
        kept = {name: value for name, value in {**named, **last}.items() if value}
        total_ms = 1000 * (time.monotonic() - self.started_at)
        return {"id": self.id, **kept, **numbers, "total_ms": round(total_ms, 3)}


class Log:
    """Writes lines of JSON. A full disk or a closed pipe loses lines, never requests."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._lock = Lock()
        self.num_lost = 0

    def event(self, event: str, **values: Any) -> None:
        """Write what happened to the server."""
        self._write({"event": event, **values})

    def request(self, record: Record) -> None:
        """Write the line of a request."""
        self._write(record.to_json())

    def _write(self, values: Mapping[str, Any]) -> None:
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"
        line = encoded({"time": stamp, **values}).decode()
        with self._lock:
            try:
                stream = self._stream or sys.stderr
                stream.write(line + "\n")
                stream.flush()
            except (OSError, ValueError):
                self.num_lost += 1
