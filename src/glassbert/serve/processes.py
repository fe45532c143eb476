"""Several processes that share a port and the weights: a parent loads the models, forks, and watches.

The parent computes nothing and answers nothing. It holds one listening socket for each child, so that
connections waiting for a killed child are taken over by its successor. Children are forked from the loaded
parent: they start in milliseconds, and share its memory until they write to it; nothing writes to weights.
A reload loads in the parent, forks new children, and lets the old ones retire.

Forking is safe because the parent computes on one thread, and has no other thread when it forks.
"""

import contextlib
import gc
import io
import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from glassbert.errors import UserError
from glassbert.serve.front import Front
from glassbert.serve.http.listen import address_of, listen
from glassbert.serve.http.log import Log
from glassbert.serve.http.notify import notify, notify_reloading, watchdog_interval_s
from glassbert.serve.http.server import Binding, Server
from glassbert.serve.metrics import Snapshot, merged
from glassbert.serve.slots import Slots

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
POLL_SECONDS = 0.1
SNAPSHOT_SECONDS = 1.0
"""Numbers of another process are at most this old."""
DEATHS_WITHIN_S = 60.0
MAX_DEATHS_EACH = 3
"""This many deaths for each child in this time, and the server gives up."""

SLOTS_EACH = 4
PAST = 0
"""The slot with the counts of children that have ended."""

Role = Literal["greeter", "worker", "retired"]
"""greeter: answers probes until the models are loaded."""


@dataclass
class _Child:
    process_id: int
    role: Role
    index: int
    """Of its socket."""
    slot: int | None
    """For what it counts; None if all are taken by children that retire."""


@dataclass
class Processes:
    """A server of several processes."""

    front: Front
    """What each of them serves."""
    binding: Binding
    number: int
    on_bound: Callable[[str], None]
    _children: list[_Child] = field(init=False, default_factory=list)
    _sockets: list[socket.socket] = field(init=False, default_factory=list)
    _loading: "_Loading | None" = field(init=False, default=None)
    _num_signals: int = field(init=False, default=0)
    _should_reload: bool = field(init=False, default=False)
    _code: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.log = self.front.log
        # Some more than there are children, for those that retire, and the first for those that have ended.
        self._slots = Slots(1 + SLOTS_EACH * self.number)
        self._deaths: deque[float] = deque(maxlen=MAX_DEATHS_EACH * self.number)

    def run(self) -> int:
        """Serve until a signal, or until children keep dying; return the exit code."""
        if not hasattr(signal, "sigtimedwait"):
            raise UserError("--processes needs Linux; leave it out")
        self._sockets = listen(self.binding.host, self.binding.port, self.number)
        self.on_bound(address_of(self._sockets[0]))
        self._usual_mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        # The other end sees this one close when the parent ends, however it ends.
        self._ends_with_parent, self._parent_end = os.pipe()
        try:
            return self._watch()
        finally:
            self._signal_all(signal.SIGKILL)
            os.close(self._parent_end)
            for one in self._sockets:
                one.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, self._usual_mask)

    def _watch(self) -> int:
        self._fork("greeter")
        self._loading = _Loading(self._load)
        interval_s = watchdog_interval_s()
        poll_s = min(POLL_SECONDS, interval_s or POLL_SECONDS)
        told_at = 0.0
        while self._children or (self._loading and not self._is_ending):
            found = signal.sigtimedwait(_SIGNALS, poll_s)
            self._handle(found.si_signo if found else 0)
            self._reap()
            self._advance()
            if interval_s and time.monotonic() - told_at > interval_s:
                told_at = time.monotonic()
                notify("WATCHDOG=1")
        if self._loading:
            self._loading.join()
        return self._code

    def _load(self) -> None:
        self.front.load()
        assert self.front.service
        if any(one.loaded.device.type != "cpu" for one in self.front.service.models.values()):
            raise UserError("--processes is for models on the CPU; leave it out, or say --device cpu")

    def _handle(self, number: int) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            self._num_signals += 1
            if self._num_signals > 1:
                self._signal_all(signal.SIGKILL)
                os._exit(130)
            self._end()
        elif number == signal.SIGHUP:
            self._should_reload = True

    @property
    def _is_ending(self) -> bool:
        return self._num_signals > 0 or self._code > 0

    def _end(self) -> None:
        notify("STOPPING=1")
        self._signal_all(signal.SIGTERM)

    def _advance(self) -> None:
        """Take in what was loaded; begin to load again if that was asked for."""
        if self._is_ending:
            return
        if self._loading and self._loading.is_done:
            loading, self._loading = self._loading, None
            self._take_in(loading.failure)
        elif not self._loading and self._should_reload:
            self._should_reload = False
            notify_reloading()
            self._loading = _Loading(self._load)
        elif not self._loading:
            self._fill_up()

    def _take_in(self, failure: BaseException | None) -> None:
        is_first = any(child.role == "greeter" for child in self._children)
        if failure is None:
            gc.unfreeze()
            gc.collect()
            gc.freeze()  # the garbage collector would write to every object and unshare its page
            before = list(self._children)
            self._fill_up(should_replace=True)
            for child in before:
                if child.role != "retired":
                    os.kill(child.process_id, signal.SIGUSR1)
                    child.role = "retired"
            if not is_first:
                self.log.event("reloaded")
        elif is_first:
            raise failure
        else:
            event = "not reloaded; the models from before still answer"
            self.log.event(event, failure=type(failure).__name__)
        notify("READY=1")

    def _fill_up(self, *, should_replace: bool = False) -> None:
        """Fork the children that are missing, or all of them."""
        there = set() if should_replace else {one.index for one in self._children if one.role == "worker"}
        for index in range(self.number):
            if index not in there:
                self._fork("worker", index)

    def _fork(self, role: Role, index: int = 0) -> None:
        taken = {child.slot for child in self._children}
        free = [slot for slot in range(PAST + 1, self._slots.number) if slot not in taken]
        slot = free[0] if role == "worker" and free else None
        sys.stdout.flush()
        sys.stderr.flush()
        process_id = os.fork()
        if process_id:
            self._children.append(_Child(process_id, role, index, slot))
            return
        code = 1
        try:
            self._begin_child()
            code = self._greet() if role == "greeter" else self._work(index, slot)
        except Exception as error:
            self.log.event("a process failed", failure=type(error).__name__)
        finally:
            os._exit(code)

    def _reap(self) -> None:
        """Notice the children that have ended; one that was not asked to is replaced later."""
        for child in list(self._children):
            process_id, status = os.waitpid(child.process_id, os.WNOHANG)
            if not process_id:
                continue
            self._children.remove(child)
            has_died = child.role == "worker" and not self._is_ending
            if child.slot is not None:
                self._keep_counts(child.slot, has_died)
            if has_died:
                self._note_death(os.waitstatus_to_exitcode(status))

    def _keep_counts(self, slot: int, has_died: bool) -> None:
        """Add the counts of a child to those of all ended children: a counter never falls."""
        metrics, (last, before) = self.front.metrics, (self._slots.read(one) or {} for one in (slot, PAST))
        kept = {name: merged([before.get(name, {}), own]) for name, own in metrics.lasting(last).items()}
        if has_died:
            restarts = metrics.process_restarts.name
            kept[restarts] = merged([kept[restarts], {restarts: 1}])
        self._slots.write(PAST, kept)
        self._slots.write(slot, {})

    def _note_death(self, code: int) -> None:
        self.log.event("a process died", code=code)
        self._deaths.append(time.monotonic())
        is_full = len(self._deaths) == self._deaths.maxlen
        if is_full and self._deaths[-1] - self._deaths[0] <= DEATHS_WITHIN_S:
            self.log.event("processes keep dying; start the server again")
            self._code = 1
            self._end()

    def _signal_all(self, number: int) -> None:
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.process_id, number)

    # Below, in a child.

    def _begin_child(self) -> None:
        os.close(self._parent_end)
        os.environ.pop("NOTIFY_SOCKET", None)  # only the parent talks to systemd
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # a terminal sends them to all; the parent passes them on
        signal.pthread_sigmask(signal.SIG_SETMASK, self._usual_mask)
        _in_background(self._end_with_parent)

    def _greet(self) -> int:
        """Answer probes until the models are loaded; return the exit code."""
        server = Server(self.front, _Waiting(self.front), self.binding, Log(io.StringIO()))
        return server.run_on(self._sockets, {signal.SIGTERM: server.end, signal.SIGUSR1: server.retire})

    def _work(self, index: int, slot: int | None) -> int:
        """Serve the models; return the exit code."""
        others = [one for one in range(self._slots.number) if one != slot]
        self.front.metrics.other_processes = lambda: self._snapshots(others)
        self.front.start()  # before anything is accepted: every accepted request gets an answer
        if slot is not None:
            _in_background(lambda: self._keep_writing(slot))
        server = Server(self.front, self.front, self.binding, self.log)
        # Of a socket that systemd opened there is one for all.
        sockets = [self._sockets[index % len(self._sockets)]]
        code = server.run_on(sockets, {signal.SIGTERM: server.end, signal.SIGUSR1: server.retire})
        if slot is not None:
            self._slots.write(slot, self.front.metrics.snapshot())
        return code

    def _end_with_parent(self) -> None:
        os.read(self._ends_with_parent, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    def _keep_writing(self, slot: int) -> None:
        while self.front.state != "draining":
            self._slots.write(slot, self.front.metrics.snapshot())
            time.sleep(SNAPSHOT_SECONDS)

    def _snapshots(self, indices: list[int]) -> list[Snapshot]:
        return [found for index in indices if (found := self._slots.read(index))]


class _Loading:
    """Work on its own thread, so that signals are handled meanwhile."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether the thread has ended: until then nothing may be forked."""
        return not self._thread.is_alive()

    def join(self) -> None:
        """Wait for its end: a process must not exit while one of its threads is inside torch."""
        self._thread.join()

    def _run(self, work: Callable[[], None]) -> None:
        from glassbert.inference.threads import compute_alone

        try:
            compute_alone()
            work()
        except BaseException as error:
            self.failure = error


class _Waiting:
    """The backend of the process that answers probes while the models are loaded elsewhere."""

    def __init__(self, front: Front) -> None:
        self.leave, self.refuse, self.is_idle = front.leave, front.refuse, front.is_idle
        self._is_over = threading.Event()

    def start(self) -> None:
        """Wait for the end."""
        self._is_over.wait()

    def stop(self) -> None:
        """End the waiting."""
        self._is_over.set()

    def reload(self) -> None:
        """There is nothing to load."""

    def has_given_up(self) -> bool:
        """Nothing can go wrong."""
        return False


def _in_background(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()
