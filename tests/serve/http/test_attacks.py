"""Hostile connections over raw sockets: each is refused and closed, and the server keeps running."""

import socket
import time
from collections.abc import Iterator

import pytest

from glassbert.serve.front import Front
from glassbert.serve.http import server as server_module
from glassbert.serve.http.guard import HEAD_BYTES
from glassbert.serve.http.keys import Hosts
from glassbert.serve.http.log import Log
from glassbert.serve.settings import ServeSettings
from helpers.live_server import Hasty, LiveServer, read_all, request_bytes


@pytest.fixture(scope="module")
def live(folders: dict[str, str]) -> Iterator[LiveServer]:
    """One server for all attacks, with short times."""
    settings = ServeSettings(threads=1, timeout=60, max_wait=60, max_body_bytes=100_000)
    front = Front({"fill": folders["fill"]}, settings, hosts=Hosts.allowed("127.0.0.1"), log=Log())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_module, "GuardedProtocol", Hasty)
        live = LiveServer(front)
        while front.state != "ready":
            time.sleep(0.01)
        yield live
        live.stop()
        assert live.code == 0


@pytest.fixture(autouse=True)
def still_there(live: LiveServer, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """After every attack the server answers, and has printed no traceback."""
    yield
    assert live.post("/embed", {"inputs": "a"})[0] == 200
    assert "Traceback" not in capfd.readouterr().err


POST = b"POST /embed HTTP/1.1\r\nhost: localhost\r\n"


def status(answer: bytes) -> int:
    return int(answer.split()[1])


def test_a_head_that_never_ends_in_size_is_431(live: LiveServer) -> None:
    with live.connect() as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n")
        try:
            for _ in range(100):
                connection.sendall(b"x-filler: " + b"a" * 1000 + b"\r\n")
        except (BrokenPipeError, ConnectionResetError):
            return  # refused while it was still being sent
        assert status(read_all(connection)) == 431


def test_a_large_head_in_one_piece_is_431_and_one_below_the_limit_is_answered(live: LiveServer) -> None:
    def head(size: int) -> bytes:
        start = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx: "
        return start + b"a" * (size - len(start)) + b"\r\n\r\n"

    assert status(live.send(head(HEAD_BYTES - 10))) == 200
    assert status(live.send(head(HEAD_BYTES + 10))) == 431


def test_the_head_of_a_second_request_is_limited_too(live: LiveServer) -> None:
    with live.connect() as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        connection.sendall(
            b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 2 * HEAD_BYTES + b"\r\n\r\n"
        )
        assert status(read_all(connection)) == 431


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /livez HTTP/1.1\r\nhost: local",
        request_bytes("/embed", b'{"inputs": "a"}')[:-4],
    ],
    ids=["nothing", "half a head", "half a body"],
)
def test_a_request_that_never_ends_in_time_is_408(sent: bytes, live: LiveServer) -> None:
    assert status(live.send(sent)) == 408


def trickle(connection: socket.socket) -> None:
    for _ in range(1000):
        connection.sendall(b"x: y\r\n")
        time.sleep(0.05)


def test_a_head_that_trickles_is_408(live: LiveServer) -> None:
    with live.connect() as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\n")
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            trickle(connection)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /livez HTTP/1.1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: localhost\r\nHost: evil.example\r\n\r\n",
        POST + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"content-length: 4\r\ncontent-length: 5\r\n\r\nabcd",
        POST + b"content-length: +4\r\n\r\nabcd",
        POST + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: localhost\r\n bad: folded\r\nx\x00y: z\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"nonsense\r\n\r\n",
    ],
    ids=["no host", "two hosts", "CL and TE", "two CL", "signed CL", "xchunked", "NUL", "TLS", "nonsense"],
)
def test_a_request_that_two_servers_could_read_differently_is_400(head: bytes, live: LiveServer) -> None:
    assert status(live.send(head)) == 400


def test_a_body_longer_than_allowed_is_refused_and_the_connection_closed(live: LiveServer) -> None:
    body = b'{"inputs": "' + b"a" * 200_000 + b'"}'
    with live.connect() as connection:
        connection.sendall(request_bytes("/embed", body)[:300])  # its length is enough
        assert status(read_all(connection)) == 413
    chunked = POST + b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    with live.connect() as connection:
        connection.sendall(chunked)
        try:
            for _ in range(30):
                connection.sendall(b"2710\r\n" + b"a" * 10_000 + b"\r\n")
        except (BrokenPipeError, ConnectionResetError):
            return
        assert status(read_all(connection)) == 413


def test_a_foreign_name_of_this_machine_is_403(live: LiveServer) -> None:
    answer = live.send(b"GET /livez HTTP/1.1\r\nhost: rebound.example\r\nconnection: close\r\n\r\n")
    assert status(answer) == 403


def test_an_upgrade_is_not_taken(live: LiveServer) -> None:
    upgrade = "upgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-version: 13\r\n"
    with live.connect() as connection:
        connection.sendall(request_bytes("/embed", b"", upgrade, method="GET"))
        assert connection.recv(64).startswith(b"HTTP/1.1 405")


def test_a_client_that_never_reads_its_answer_is_dropped(live: LiveServer) -> None:
    body = b'{"inputs": [' + b",".join([b'"a b c d e f g h i j k l m n o p"'] * 2000) + b"]}"
    with live.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(request_bytes("/embed_all", body))
        while not live.server.num_connections:
            time.sleep(0.01)
        assert _closes(live, within_s=60)


def _closes(live: LiveServer, within_s: float) -> bool:
    """Return whether no connection is left open on the server's side."""
    ends_at = time.monotonic() + within_s
    while time.monotonic() < ends_at:
        if not live.server.num_connections:
            return True
        time.sleep(0.05)
    return False


def test_many_that_leave_in_the_middle_do_no_harm(live: LiveServer) -> None:
    for cut in (1, 30, 80, 120, 10_000):
        with live.connect() as connection:
            connection.sendall(request_bytes("/embed", b'{"inputs": "a b c"}')[:cut])
    assert _closes(live, within_s=60)
