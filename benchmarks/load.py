"""A load on an HTTP server: requests are planned ahead, so a server that stalls does not slow down clients.

Latency counts from the moment for which a request was planned, not from when it could be sent.
"""

import asyncio
import random
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

HOST = "127.0.0.1"
PATIENCE_S = 60.0
"""How long clients wait for an answer."""
KEPT_SECONDS = 3.0
"""An idle connection is used again for so long; usual servers close it after 5 s."""


@dataclass(frozen=True)
class Request:
    """The bytes of a request, and how many texts are in it."""

    content: bytes
    num_texts: int


@dataclass
class Outcome:
    """The result of one request."""

    due_s: float
    latency_s: float
    status: int | str
    """Of HTTP, or the name of an exception."""
    num_texts: int


@dataclass
class Result:
    """The result of a load."""

    seconds: float
    outcomes: list[Outcome] = field(default_factory=list)
    client_cpu_s: float = 0.0
    """CPU time that this process used meanwhile: near a whole core, the client is what is measured."""

    def good(self, within_s: float = float("inf")) -> list[Outcome]:
        return [one for one in self.outcomes if one.status == 200 and one.latency_s <= within_s]

    def texts_per_s(self) -> float:
        return sum(one.num_texts for one in self.good()) / self.seconds

    def good_per_s(self, within_s: float = float("inf")) -> float:
        return len(self.good(within_s)) / self.seconds

    def percentile_ms(self, percent: float, max_texts: int | None = None) -> float:
        """Return a percentile of the latency of answers, perhaps only small ones; infinity without any."""
        latencies = sorted(
            one.latency_s for one in self.good() if max_texts is None or one.num_texts <= max_texts
        )
        if not latencies:
            return float("inf")
        return 1000 * latencies[min(len(latencies) - 1, int(len(latencies) * percent / 100))]

    def client_share(self) -> float:
        """Return the share of a core that the client used."""
        return self.client_cpu_s / self.seconds

    def statuses(self) -> dict[int | str, int]:
        return dict(Counter(one.status for one in self.outcomes))

    def has_errors(self) -> bool:
        return set(self.statuses()) != {200}


class Client:
    """Connections to one server, kept and used again."""

    def __init__(self, port: int, timeout_s: float = PATIENCE_S, address: str | None = None) -> None:
        """Ask a server.

        Args:
            address: Of this machine, to come from; servers take those of other addresses for other clients.
        """
        self.port, self.timeout_s = port, timeout_s
        self._local = (address, 0) if address else None
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter, float]] = []
        """Open connections, and since when each has nothing to do."""

    async def ask(self, request: Request) -> int | str:
        """Return the status of an answer, or the name of what went wrong."""
        try:
            return await asyncio.wait_for(self._once(request.content), self.timeout_s)
        except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
            return type(error).__name__

    async def _once(self, content: bytes) -> int:
        reader, writer = self._open_one() or await self.connect()
        should_keep = False
        try:
            writer.write(content)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
            should_keep = b"connection: close" not in head
            return int(head[9:12])
        finally:
            if should_keep:
                self._idle.append((reader, writer, time.perf_counter()))
            else:
                writer.close()

    def _open_one(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Return a connection that the server will not close just now."""
        while self._idle:
            reader, writer, since = self._idle.pop()
            if time.perf_counter() - since < KEPT_SECONDS and not reader.at_eof():
                return reader, writer
            writer.close()
        return None

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(HOST, self.port, limit=2**24, local_addr=self._local)

    def close(self) -> None:
        for _, writer, _ in self._idle:
            writer.close()


async def closed_loop(
    port: int,
    requests: Sequence[Request],
    num_clients: int,
    seconds: float,
    *,
    address: str | None = None,
) -> Result:
    """Let some clients ask again as soon as they have their answer, and wait for the last answer.

    The seconds of the result are those until then: a server that answers small requests first has many large
    ones under way when the clients stop, and their texts count.

    Args:
        address: Of this machine, to come from.
    """
    client, result, start = Client(port, address=address), Result(seconds), time.perf_counter()
    cpu_before = time.process_time()
    turn = iter(range(10**9))

    async def ask_on() -> None:
        while (due := time.perf_counter() - start) < seconds:
            request = requests[next(turn) % len(requests)]
            status = await client.ask(request)
            ended = time.perf_counter() - start
            result.outcomes.append(Outcome(due, ended - due, status, request.num_texts))

    await asyncio.gather(*(ask_on() for _ in range(num_clients)))
    result.seconds = time.perf_counter() - start
    result.client_cpu_s = time.process_time() - cpu_before
    client.close()
    return result


async def open_loop(
    port: int,
    requests: Sequence[Request],
    rate: float,
    seconds: float,
    *,
    seed: int,
    timeout_s: float = PATIENCE_S,
) -> Result:
    """Send requests at random moments, ``rate`` a second on average, whether or not they are answered."""
    rng, client, result = random.Random(seed), Client(port, timeout_s), Result(seconds)
    start, due, tasks = time.perf_counter(), 0.0, set()
    cpu_before = time.process_time()

    async def job(due: float, request: Request) -> None:
        status = await client.ask(request)
        result.outcomes.append(Outcome(due, time.perf_counter() - start - due, status, request.num_texts))

    first = rng.randrange(len(requests))
    number = 0
    while (due := due + rng.expovariate(rate)) < seconds:
        await asyncio.sleep(max(0.0, due - (time.perf_counter() - start)))
        tasks.add(asyncio.create_task(job(due, requests[(first + number) % len(requests)])))
        number += 1
    await asyncio.gather(*tasks)
    result.client_cpu_s = time.process_time() - cpu_before
    client.close()
    return result


async def time_until_quick(port: int, request: Request, limit_s: float, longest_s: float = 30.0) -> float:
    """Return the seconds until a lone request is answered within ``limit_s``."""
    client, start = Client(port), time.perf_counter()
    while (now := time.perf_counter()) - start < longest_s:
        if await client.ask(request) == 200 and time.perf_counter() - now <= limit_s:
            break
        await asyncio.sleep(0.02)
    client.close()
    return now - start


async def leave_early(port: int, requests: Sequence[Request], rate: float, seconds: float, seed: int) -> int:
    """Send requests and close their connections before the answer; return how many."""
    rng, start, due, number = random.Random(seed), time.perf_counter(), 0.0, 0
    while (due := due + rng.expovariate(rate)) < seconds:
        await asyncio.sleep(max(0.0, due - (time.perf_counter() - start)))
        _, writer = await asyncio.open_connection(HOST, port)
        writer.write(requests[number % len(requests)].content)
        await writer.drain()
        await asyncio.sleep(rng.random() * 0.02)
        writer.close()
        number += 1
    return number


async def read_slowly(port: int, request: Request, num_clients: int, seconds: float, address: str) -> None:
    """Let clients of one address ask for much and take a few bytes of it now and then."""

    async def trickle() -> None:
        reader, writer = await asyncio.open_connection(HOST, port, limit=1024, local_addr=(address, 0))
        writer.write(request.content)
        ends_at = time.perf_counter() + seconds
        while time.perf_counter() < ends_at:
            if not await reader.read(256):
                break
            await asyncio.sleep(0.1)
        writer.close()

    await asyncio.gather(*(trickle() for _ in range(num_clients)))


def median(values: Sequence[float]) -> float:
    return statistics.median(values)
