"""The queue between requests and compute threads. Its unit is one text, or one window of a long text.

- Admission is by time: a request is refused at once if its estimated wait is longer than its patience. The
  estimate comes from the measured speed, so it adapts to other load on the machine. A burst may wait a while;
  what arrives while the queue never empties may not: then more is asked than can be answered, and with a
  short queue as much is answered as with a long one, but in time.
- No batch is formed ahead: a thread that becomes free takes what is oldest then, up to the budget. It never
  waits for more: at low load a batch of one is best, at high load the queue fills by itself.
- Clients share evenly (surplus round robin, in seconds of work). Small requests go before large ones, which
  still get every fourth batch.

Nothing here knows HTTP or torch, and tests bring their own clock.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Condition

from glassbert.serve.tickets import (
    INTERACTIVE_PARTS,
    Abandoned,
    Expired,
    Failure,
    Ticket,
    Unavailable,
    Unit,
)

BULK_TURN = 4
"""While both kinds wait, one batch in this many is for large requests."""
STANDING_SHARE = 0.25
"""Of the longest wait, once no compute thread has found the queue empty for that long."""
HALF_LIFE_S = 2.0
"""Seconds of work after which a measured speed counts half."""
UNKNOWN_SPEED = 1000.0
"""Tokens per second of one thread, until it was measured."""
DEFAULT_BUDGET = 512


class Overloaded(Failure):
    """The queue is too long for this request."""

    def __init__(self, wait_s: float, longest_s: float) -> None:
        """Refuse a request.

        Args:
            wait_s: How long it would wait for its turn.
            longest_s: How long it may wait.
        """
        super().__init__(wait_s, longest_s)
        self.wait_s, self.longest_s = wait_s, longest_s

    @property
    def retry_after_s(self) -> int:
        """Seconds until a new attempt is likely to be accepted."""
        return max(1, math.ceil(self.wait_s - self.longest_s / 2))


class Speed:
    """Tokens per second of one compute thread: a mean over its recent work."""

    def __init__(self, tokens_per_s: float = UNKNOWN_SPEED) -> None:
        self._tokens, self._seconds = tokens_per_s, 1.0

    def note(self, tokens: int, seconds: float) -> None:
        """Count a batch. Long batches weigh more than short ones, recent work more than old work."""
        keep = 0.5 ** (seconds / HALF_LIFE_S)
        self._tokens = keep * self._tokens + tokens
        self._seconds = keep * self._seconds + seconds

    @property
    def tokens_per_s(self) -> float:
        return self._tokens / max(self._seconds, 1e-9)


class Load:
    """The share of the compute threads' time that small requests took lately."""

    def __init__(self) -> None:
        self._seconds = self._noted_at = 0.0

    def note(self, seconds: float, now: float) -> None:
        """Count a batch of small requests."""
        self._seconds = self._left(now) + seconds
        self._noted_at = now

    def share(self, now: float, num_workers: int) -> float:
        return min(1.0, self._left(now) * math.log(2) / HALF_LIFE_S / num_workers)

    def _left(self, now: float) -> float:
        return self._seconds * 0.5 ** ((now - self._noted_at) / HALF_LIFE_S)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long requests may wait."""

    timeout_s: float = 10.0
    """Patience of a client that names none; the time of its own work comes on top."""
    max_timeout_s: float = 120.0
    """The longest patience of any request."""
    max_wait_s: float = 2.0
    """Longest estimated wait of a small request in a burst, whatever its patience: some libraries name
    minutes with every request, and a client that is refused early can ask another server. A large request may
    wait as long as it says, or else this time and that of its own work: what is computed for a client that
    has left is lost."""
    quantum_s: float = 0.1
    """Seconds of work that a client gets before it is the next one's turn."""


@dataclass(eq=False)
class Batch:
    """Units that a compute thread runs together; all have one group."""

    units: list[Unit]
    model: str
    started_at: float
    expected_s: float
    is_small: bool
    """Whether it holds small requests."""
    is_alone: bool
    """Whether nothing else waits or runs."""

    @property
    def tokens(self) -> int:
        return sum(unit.tokens for unit in self.units)


@dataclass(eq=False)
class _Lane:
    """The waiting units of a client, small or large requests."""

    units: deque[Unit] = field(default_factory=deque)
    tokens: Counter[str] = field(default_factory=Counter)
    """By model, without those of tickets that have ended."""
    credit_s: float = 0.0


@dataclass(frozen=True)
class QueueState:
    """A look at the queue."""

    num_units: int
    num_tokens: int
    wait_s: float
    """Estimated wait of a small request of a new client."""
    num_running: int


class Queue:
    """Waiting units by client. All methods may be called from any thread."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        num_workers: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or Limits()
        self.num_workers = num_workers
        self.clock = clock
        self._speeds: dict[str, Speed] = {}
        self._budgets: dict[str, int] = {}
        # Small requests, then large ones: by client, in the order of their turns.
        self._rings: tuple[dict[Hashable, _Lane], dict[Hashable, _Lane]] = ({}, {})
        self._empty_at = [0.0, 0.0]
        """When a compute thread last had nothing to take from each of them."""
        self._num_small_batches = 0
        self._small_load = Load()
        self._running: set[Batch] = set()
        self._is_closed = False
        self._changed = Condition()

    def set_model(self, model: str, *, tokens_per_s: float, budget: int) -> None:
        """Set how fast one thread runs a model, and how many tokens its batches hold."""
        with self._changed:
            self._speeds[model] = Speed(tokens_per_s)
            self._budgets[model] = budget

    def speed(self, model: str) -> float:
        """Return the tokens per second of one thread."""
        return self._speeds.setdefault(model, Speed()).tokens_per_s

    def submit(self, ticket: Ticket) -> None:
        """Let the units of a ticket wait for a compute thread; raise `Overloaded` if that takes too long."""
        tokens = Counter({ticket.model: sum(unit.tokens for unit in ticket.units)})
        with self._changed:
            if self._is_closed:
                raise Unavailable()
            self._admit(tokens, ticket.client, ticket.patience_s, is_small=ticket.is_interactive)
            now = self.clock()
            ticket.submitted_at = now
            ticket.expires_at = now + self._patience(tokens, ticket.patience_s)
            ring = self._rings[not ticket.is_interactive]
            if not ring and len(self._running) < self.num_workers:  # an idle thread is waiting for it
                self._empty_at[not ticket.is_interactive] = now
            lane = ring.setdefault(ticket.client, _Lane())
            lane.units.extend(ticket.units)
            lane.tokens.update(tokens)
            self._changed.notify_all()

    def check(
        self, num_tokens: int, num_texts: int, *, model: str, client: str, patience_s: float | None
    ) -> None:
        """Raise `Overloaded` if a request of about this size would be refused now."""
        is_small = num_texts <= INTERACTIVE_PARTS
        with self._changed:
            self._admit(Counter({model: num_tokens}), client, patience_s, is_small=is_small)

    def take(self, timeout_s: float | None = None) -> Batch | None:
        """Return the next batch; wait for it. None when the time is up, or when the queue closed."""
        ended: list[tuple[Ticket, Failure]] = []
        with self._changed:
            batch = self._next(ended)
            if batch is None and not ended and not self._is_closed:
                self._changed.wait(timeout_s)
                batch = self._next(ended)
        for ticket, failure in ended:
            ticket.end(failure)
        return batch

    def finish(self, batch: Batch) -> None:
        """Report that a batch is no longer running; its speed counts from now on."""
        with self._changed:
            self._running.discard(batch)
            now = self.clock()
            seconds = now - batch.started_at
            if batch.is_small:
                self._small_load.note(seconds, now)
            self._speeds.setdefault(batch.model, Speed()).note(batch.tokens, seconds)
            self._changed.notify_all()

    def cancel(self, ticket: Ticket, failure: Failure | None = None) -> None:
        """End a ticket; those of its units that wait are not computed."""
        with self._changed:
            if not ticket.is_over:
                self._forget(ticket)
        ticket.end(failure or Abandoned())

    def close(self) -> None:
        """Accept no more tickets and end those that wait; running batches still finish."""
        with self._changed:
            self._is_closed = True
            waiting = {unit.ticket for ring in self._rings for lane in ring.values() for unit in lane.units}
            for ring in self._rings:
                ring.clear()
            self._changed.notify_all()
        for ticket in waiting:
            ticket.end(Unavailable())

    def is_idle(self) -> bool:
        """Return whether nothing waits and nothing runs."""
        with self._changed:
            return not self._running and not any(self._rings)

    def state(self) -> QueueState:
        """Return how long the queue is."""
        with self._changed:
            lanes = [lane for ring in self._rings for lane in ring.values()]
            return QueueState(
                num_units=sum(not unit.ticket.is_over for lane in lanes for unit in lane.units),
                num_tokens=sum(lane.tokens.total() for lane in lanes),
                wait_s=self._wait(Counter(), "", is_small=True),
                num_running=len(self._running),
            )

    # Below, the lock is held.

    def _admit(self, tokens: Counter[str], client: str, wished_s: float | None, *, is_small: bool) -> None:
        """Raise `Overloaded` if a request would wait longer than it may."""
        wait_s = self._wait(tokens, client, is_small=is_small)
        own_s = self._seconds(tokens) / self.num_workers
        if own_s > self.limits.max_timeout_s:
            raise Overloaded(wait_s + own_s, self.limits.max_timeout_s)
        longest_s = self._patience(tokens, wished_s) - own_s
        if is_small:
            longest_s = min(longest_s, self._max_wait(is_small=True))
        elif wished_s is None:
            longest_s = min(longest_s, self._max_wait(is_small=False) + own_s)
        # An idle server takes whatever fits the longest patience: it can only get busier.
        if wait_s > max(longest_s, 0.0):
            raise Overloaded(wait_s, max(longest_s, 0.0))

    def _max_wait(self, *, is_small: bool) -> float:
        """Return the longest wait: short while more is asked than can be answered."""
        is_busy = len(self._running) >= self.num_workers
        stands_s = self.clock() - self._empty_at[not is_small] if is_busy else 0.0
        return self.limits.max_wait_s * (STANDING_SHARE if stands_s > self.limits.max_wait_s else 1)

    def _patience(self, tokens: Counter[str], wished_s: float | None) -> float:
        own_s = self._seconds(tokens) / self.num_workers
        usual = self.limits.timeout_s + own_s
        return min(usual if wished_s is None else wished_s, self.limits.max_timeout_s)

    def _seconds(self, tokens: Counter[str]) -> float:
        """Return the work in some tokens, in seconds of one thread."""
        return sum(number / self.speed(model) for model, number in tokens.items())

    def _wait(self, tokens: Counter[str], client: str, *, is_small: bool) -> float:
        """Estimate the seconds until the last of a client's tokens is taken.

        Clients take turns, so of another client's work only as much comes first as this one has itself.
        """
        now = self.clock()
        ring, other = self._rings if is_small else self._rings[::-1]
        own = ring.get(client)
        before_s = self._seconds(own.tokens) if own else 0.0
        mine_s = before_s + max(self._seconds(tokens), self.limits.quantum_s)
        before_s += sum(
            min(self._seconds(lane.tokens), mine_s) for key, lane in ring.items() if key != client
        )
        if is_small:
            other_s = sum(self._seconds(lane.tokens) for lane in other.values())
            before_s += min(other_s, before_s / (BULK_TURN - 1))
        else:
            # More small requests will come first meanwhile: large ones get what those leave.
            small_share = self._small_load.share(now, self.num_workers)
            before_s /= max(1 - small_share, 1 / BULK_TURN)
        running_s = sum(max(0.0, one.expected_s + one.started_at - now) for one in self._running)
        # A free thread takes work at once.
        running_s *= len(self._running) >= self.num_workers
        return (before_s + running_s) / self.num_workers

    def _next(self, ended: list[tuple[Ticket, Failure]]) -> Batch | None:
        small, large = self._rings
        for number, ring in enumerate(self._rings):
            if not ring:
                self._empty_at[number] = self.clock()
        while small or large:
            is_large_turn = bool(large) and (not small or self._num_small_batches >= BULK_TURN - 1)
            units = self._fill(large if is_large_turn else small, ended)
            if not units:
                continue  # all tickets in front had ended
            self._num_small_batches = 0 if is_large_turn or not large else self._num_small_batches + 1
            model = units[0].ticket.model
            tokens = sum(unit.tokens for unit in units)
            batch = Batch(
                units=sorted(units, key=lambda unit: unit.tokens),  # few shapes for attention
                model=model,
                started_at=self.clock(),
                expected_s=tokens / self.speed(model),
                is_small=not is_large_turn,
                is_alone=not self._running and not small and not large,
            )
            self._running.add(batch)
            for unit in units:
                unit.ticket.taken_at = unit.ticket.taken_at or batch.started_at
            return batch
        return None

    def _fill(self, ring: dict[Hashable, _Lane], ended: list[tuple[Ticket, Failure]]) -> list[Unit]:
        """Take units of one group, clients in turn, until the budget is full or no such unit waits."""
        chosen: list[Unit] = []
        room = 0
        has_more = True
        while has_more:
            has_more = False
            for client, lane in list(ring.items()):
                if lane.credit_s <= 0:
                    lane.credit_s += self.limits.quantum_s
                while (unit := self._front(lane, ended)) and lane.credit_s > 0:
                    if not chosen:
                        room = self._budgets.get(unit.ticket.model, DEFAULT_BUDGET)
                    elif unit.group != chosen[0].group:
                        break
                    elif unit.tokens > room:
                        return chosen
                    chosen.append(lane.units.popleft())
                    room -= unit.tokens
                    lane.tokens[unit.ticket.model] -= unit.tokens
                    lane.credit_s -= unit.tokens / self.speed(unit.ticket.model)
                if unit is None:
                    ring.pop(client, None)
                elif lane.credit_s <= 0:
                    ring[client] = ring.pop(client)  # to the end of the line: it is the next client's turn
                    has_more = True
        return chosen

    def _front(self, lane: _Lane, ended: list[tuple[Ticket, Failure]]) -> Unit | None:
        """Return the oldest unit of a lane that somebody still waits for."""
        while lane.units and self._has_ended(lane.units[0].ticket, ended):
            lane.units.popleft()
        return lane.units[0] if lane.units else None

    def _has_ended(self, ticket: Ticket, ended: list[tuple[Ticket, Failure]]) -> bool:
        """Return whether a ticket needs no more work; one whose time is up ends here."""
        if ticket.is_over or any(ticket is one for one, _ in ended):
            return True
        if self.clock() <= ticket.expires_at:
            return False
        self._forget(ticket)
        ended.append((ticket, Expired()))
        return True

    def _forget(self, ticket: Ticket) -> None:
        """Stop counting the waiting units of a ticket; they leave the queue when their turn comes."""
        lane = self._rings[not ticket.is_interactive].get(ticket.client)
        if lane is None:
            return
        lane.tokens[ticket.model] -= sum(unit.tokens for unit in lane.units if unit.ticket is ticket)
        if not any(lane.tokens.values()):
            del self._rings[not ticket.is_interactive][ticket.client]
