"""What every report of metrics has in common, including those of tasks from outside."""

from typing import Any, Protocol


class Report(Protocol):
    """How good predictions are."""

    def metrics(self) -> dict[str, float]:
        """Return the figures by the names that `evaluate` prints and `--min` reads."""

    def to_json(self) -> dict[str, Any]:
        """Return all of the report."""
