"""Files on several processes of this machine, each with a model of its own; one that dies is replaced."""

import multiprocessing
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait

from glassbert.bulk.jobs import Job
from glassbert.bulk.plan import TRIES, FileResult, FileTask, given_up
from glassbert.errors import RunFailed, UserError
from glassbert.signals import not_inherited
from glassbert.text.workers import start_worker

_READY = "ready"


def run_in_processes(job: Job, tasks: Sequence[FileTask], processes: int) -> "Iterator[int | FileResult]":
    """Yield what happens to the files: rows that are done (fewer, if a process died), and results.

    A file whose process dies is started again by another one, and given up after a few times.
    """
    waiting, deaths = deque(tasks), Counter[FileTask]()
    at_work: dict[Connection, _Process] = {}
    try:
        while waiting or at_work:
            while waiting and len(at_work) < processes:
                started = _Process(job, processes)
                started.give(waiting.popleft())
                at_work[started.connection] = started
            for connection in wait(list(at_work)):
                assert isinstance(connection, Connection)
                process = at_work[connection]
                try:
                    event = process.receive()
                except EOFError:
                    del at_work[connection]
                    yield from _died(process, deaths, waiting)
                    continue
                if event is not None:
                    yield event
                if isinstance(event, FileResult):
                    if waiting:
                        process.give(waiting.popleft())
                    else:
                        del at_work[connection]
                        process.end()
    finally:
        for process in at_work.values():
            process.kill()


def _died(
    process: "_Process", deaths: Counter[FileTask], waiting: deque[FileTask]
) -> "Iterator[int | FileResult]":
    task, code = process.task, process.kill()
    if not process.is_ready:
        raise RunFailed(f"a process ended with code {code} while it loaded the model; is the memory full?")
    yield -process.num_rows
    deaths[task] += 1
    if deaths[task] < TRIES:
        waiting.append(task)
    else:
        yield given_up(task)


class _Process:
    """A process, the connection to it, and what it is doing."""

    task: FileTask

    def __init__(self, job: Job, processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, job, processes), daemon=True)
        with not_inherited():
            self._process.start()
        theirs.close()  # so that the connection ends when the process does
        self.is_ready = False
        self.num_rows = 0

    def give(self, task: FileTask) -> None:
        self.task, self.num_rows = task, 0
        self._send(task)

    def receive(self) -> int | FileResult | None:
        """Return rows that are done, or a result; None for a loaded model. Raise what was raised there."""
        try:
            event = self.connection.recv()
        except ConnectionResetError:  # killed before it read what it was sent
            raise EOFError from None
        if isinstance(event, BaseException):
            raise event
        if event == _READY:
            self.is_ready = True
            return None
        if isinstance(event, int):
            self.num_rows += event
        assert isinstance(event, int | FileResult)
        return event

    def end(self) -> None:
        """Let the process end by itself."""
        self._send(None)
        self._process.join()

    def _send(self, task: FileTask | None) -> None:
        # A process that has just been killed reads nothing; `receive` finds out.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(task)

    def kill(self) -> int | None:
        """End the process, whatever it does; return its exit code."""
        self._process.kill()
        self._process.join()
        self.connection.close()
        return self._process.exitcode


def _serve(connection: Connection, job: Job, processes: int) -> None:
    """Work on the files that the parent sends, until it sends None; all of this process."""
    start_worker()
    import torch

    from glassbert.bulk.worker import Worker

    try:
        worker = Worker(job, max(1, torch.get_num_threads() // processes))
        connection.send(_READY)
        while (task := connection.recv()) is not None:
            for event in worker.work(task):
                connection.send(event)
    except (UserError, OSError) as error:
        connection.send(error)
