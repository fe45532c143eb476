"""The curves of a run for TensorBoard, if it is installed.

Events are written synchronously: torch's writer has a thread of its own, in which a full disk would go
unnoticed and which a checkpoint would have to wait for.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = "tensorboard"


class Curves:
    """Writes points under RUN/tensorboard; does nothing if TensorBoard is not installed."""

    def __init__(self, run: Path, step: int) -> None:
        """Start after ``step``."""
        # A new file for each session: a record that a kill cut off in the last one does not matter then.
        self._path = run / FOLDER / f"events.out.tfevents.{time.time_ns()}"
        self._step = step
        self._points: list[tuple[str, float, int, float]] = []
        self._is_installed = _is_installed()

    def add(self, group: str, values: Mapping[str, float], step: int) -> None:
        """Add a point to each of a group of curves."""
        if self._is_installed:
            now = time.time()
            self._points += [(f"{group}/{name}", value, step, now) for name, value in values.items()]

    def flush(self) -> None:
        """Append the points to the file."""
        if not self._points:
            return
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        events = [] if self._path.exists() else self._opening()
        for name, value, step, now in self._points:
            summary = Summary(value=[Summary.Value(tag=name, simple_value=value)])
            events.append(Event(wall_time=now, step=step, summary=summary))
        self._points.clear()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            writer = RecordWriter(file)
            for event in events:
                writer.write(event.SerializeToString())

    def _opening(self) -> list[Any]:
        """Return the first events of a file."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        start = SessionLog(status=SessionLog.START)
        return [
            Event(wall_time=time.time(), file_version="brain.Event:2"),
            # A session that was killed has points after its last checkpoint, which this one writes again:
            # TensorBoard drops all points from the step on at which a session starts.
            Event(wall_time=time.time(), step=self._step + 1, session_log=start),
        ]


def _is_installed() -> bool:
    try:
        import tensorboard.summary.writer.record_writer  # noqa: F401
    except ImportError:
        return False
    return True
