"""A server as users start it: a process of its own, with its log, its signals and a load on it."""

import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


class ServeProcess:
    """`glassbert serve` with some words, until `stop`."""

    def __init__(self, *words: str, stderr: Any = subprocess.PIPE, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "glassbert", "serve", *words, "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self.process.stdout
        self.port = int(self.process.stdout.readline().rpartition(":")[2])

    def _read(self) -> None:
        for line in self.process.stderr or ():
            self.lines.append(line)

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the events of this name in the log so far."""
        return [one for one in map(json.loads, list(self.lines)) if one.get("event") == name]

    def requests(self) -> list[dict[str, Any]]:
        """Return the lines of requests in the log so far."""
        return [one for one in map(json.loads, list(self.lines)) if "event" not in one]

    def wait_for(self, name: str, number: int = 1, within_s: float = 60) -> None:
        """Wait until an event has been logged this many times."""
        self.wait_until(lambda: len(self.events(name)) >= number, within_s)

    def wait_until(self, is_met: Any, within_s: float = 60) -> None:
        ends_at = time.monotonic() + within_s
        while not is_met():
            assert time.monotonic() < ends_at, "".join(self.lines)
            time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def children(self) -> list[int]:
        """Return the ids of the processes that it has forked."""
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(path) as file:
            return [int(one) for one in file.read().split()]

    def ask(self, path: str, content: Any = None, **headers: str) -> tuple[int, bytes]:
        """Send one request on a connection of its own; return status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            return asked(connection, path, content, **headers)
        finally:
            connection.close()

    def stop(self) -> int:
        """Ask it to end; return the exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(60)
        self._reader.join(60)
        return code

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(60)


def asked(
    connection: http.client.HTTPConnection, path: str, content: Any = None, **headers: str
) -> tuple[int, bytes]:
    """Send a request; return status and body of its answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if content is None:
        connection.request("GET", path, headers=named)
    else:
        body = json.dumps(content).encode()
        connection.request("POST", path, body, {"content-type": "application/json", **named})
    answer = connection.getresponse()
    return answer.status, answer.read()


@dataclass
class Outcome:
    """One request of a load."""

    id: str
    sent_at: float
    result: int | str
    """The status, or the name of an exception."""
    body: bytes = b""
    seconds: float = 0.0


@dataclass
class Load:
    """Clients that ask again and again, each on a connection that it keeps while the server does."""

    port: int
    path: str
    content: Any
    num_clients: int = 4
    outcomes: list[Outcome] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator["Load"]:
        self._is_over = threading.Event()
        numbers = itertools.count()
        threads = [
            threading.Thread(target=self._ask_on, args=(numbers,), daemon=True)
            for _ in range(self.num_clients)
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join(60)

    def _ask_on(self, numbers: Iterator[int]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while not self._is_over.is_set():
            outcome = Outcome(f"load-{next(numbers)}", time.monotonic(), "")
            try:
                outcome.result, outcome.body = asked(
                    connection, self.path, self.content, x_request_id=outcome.id
                )
            except (OSError, http.client.HTTPException) as error:
                outcome.result = type(error).__name__
                connection.close()
                time.sleep(0.01)
            outcome.seconds = time.monotonic() - outcome.sent_at
            self.outcomes.append(outcome)
        connection.close()
