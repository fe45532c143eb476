"""A request in the queue: its texts, and the units that compute threads work on.

A ticket has one part for each text, and a part has one unit, or one for each window of a long text. Compute
threads hand in the output of units; the waiting request is notified of each part and of the end.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol

INTERACTIVE_PARTS = 4
"""Requests of up to this many texts go before larger ones."""


class Group(Hashable, Protocol):
    """What units have in common: only units of equal groups share a batch."""

    def run(self, payloads: Sequence[Any]) -> Sequence[Any]:
        """Return the output for each payload, in order."""


class Failure(Exception):
    """Why a ticket has no answer. The message contains nothing of the text."""


class Expired(Failure):
    """The deadline passed before the work was done."""


class Abandoned(Failure):
    """Nobody waits for the answer any more."""


class Unavailable(Failure):
    """The work was accepted, but the server could not do it: it stops, or a compute thread died."""


class Unanswerable(Failure):
    """The model failed on this text, even alone."""


@dataclass(eq=False, slots=True)
class Unit:
    """A text or a window: what a compute thread runs, together with others of its group."""

    group: Group
    tokens: int
    payload: Any
    ticket: "Ticket" = field(init=False, repr=False)
    part: "Part" = field(init=False, repr=False)
    place: int = field(init=False, default=0)
    """Its index in its part."""


@dataclass(eq=False, slots=True)
class Part:
    """One text of a request."""

    units: Sequence[Unit]
    finish: Callable[[list[Any]], Any]
    """Makes the row of the text from the outputs of its units; runs on a compute thread."""
    index: int = field(init=False, default=0)
    row: Any = None
    error: Exception | None = None
    outputs: list[Any] = field(init=False)
    num_waiting: int = field(init=False)

    def __post_init__(self) -> None:
        assert self.units, "a part without units would never be done"
        self.outputs = [None] * len(self.units)
        self.num_waiting = len(self.units)

    @property
    def is_done(self) -> bool:
        return self.error is not None or self.num_waiting == 0


class Ticket:
    """A request that waits for its texts. Its methods may be called from any thread."""

    def __init__(
        self,
        parts: Sequence[Part],
        *,
        model: str,
        client: str = "",
        patience_s: float | None = None,
        notify: Callable[[int | None], None] = lambda index: None,
        stops_at_error: bool = True,
    ) -> None:
        """Number the parts and their units.

        Args:
            model: Whose speed says how long the units take.
            client: Who asks; clients share the compute threads evenly.
            patience_s: How long the client waits; the queue's own limit when not given.
            notify: Receives the index of each part that is done, and None at the end. It is called from
                compute threads and must not block.
            stops_at_error: Whether one failed text ends the whole request.
        """
        self.parts = parts
        self.model, self.client, self.patience_s = model, client, patience_s
        self.notify, self.stops_at_error = notify, stops_at_error
        self.error: Failure | None = None
        """Why the ticket ended early."""
        self.is_over = False
        self.expires_at = float("inf")
        self.submitted_at = 0.0
        self.taken_at: float | None = None
        """When a compute thread took its first unit."""
        self._num_open = len(parts)
        self._lock = Lock()
        for index, part in enumerate(parts):
            part.index = index
            for place, unit in enumerate(part.units):
                unit.ticket, unit.part, unit.place = self, part, place

    @property
    def units(self) -> list[Unit]:
        """All units, in the order of the texts."""
        return [unit for part in self.parts for unit in part.units]

    @property
    def is_interactive(self) -> bool:
        """Whether the request is small, as those of an interactive user are."""
        return len(self.parts) <= INTERACTIVE_PARTS

    def deliver(self, unit: Unit, output: Any) -> None:
        """Hand in the output of a unit; the last one of a part makes its row."""
        part = unit.part
        with self._lock:
            if self.is_over or part.is_done:
                return
            part.outputs[unit.place] = output
            if part.num_waiting > 1:
                part.num_waiting -= 1
                return
        try:
            row = part.finish(part.outputs)
        except Exception as error:  # whatever it is, only this text fails
            self.fail(unit, error)
            return
        with self._lock:
            part.row, part.outputs, part.num_waiting = row, [], 0
        self._close(part)

    def fail(self, unit: Unit, error: Exception) -> None:
        """Report that the model cannot answer the text of a unit."""
        with self._lock:
            if self.is_over or unit.part.is_done:
                return
            unit.part.error = error
        if self.stops_at_error:
            self.end(Unanswerable(unit.part.index))
        else:
            self._close(unit.part)

    def end(self, error: Failure | None = None) -> None:
        """End the ticket now; what is still computed for it is dropped."""
        with self._lock:
            if self.is_over:
                return
            self.is_over, self.error = True, error
        self.notify(None)

    def _close(self, part: Part) -> None:
        with self._lock:
            if self.is_over:
                return
            self._num_open -= 1
            is_last = self._num_open == 0
        self.notify(part.index)
        if is_last:
            self.end()
