"""What goes wrong around a server does not reach those who ask: each fault, with requests under way."""

import io
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from glassbert.serve import workers
from glassbert.serve.front import Front
from glassbert.serve.http.log import Log
from glassbert.serve.settings import ServeSettings
from helpers.fake_work import Held
from helpers.live_server import LiveServer, request_bytes
from helpers.serve_process import Load, ServeProcess
from helpers.small_served import write_small

EMBED = ("/embed", {"inputs": ["a b c"] * 8})


@pytest.fixture
def live(folders: dict[str, str]) -> Iterator[LiveServer]:
    """A server of one model on two compute threads."""
    settings = ServeSettings(threads=2, timeout=60, max_wait=60)
    front = Front({"fill": folders["fill"]}, settings, log=Log(io.StringIO()))
    server = LiveServer(front)
    server.front = front
    while front.state == "loading":
        time.sleep(0.005)
    yield server
    server.stop()


@pytest.mark.parametrize("processes", ["1", "2"])
def test_sigterm_under_load_loses_no_accepted_request(processes: str, folders: dict[str, str]) -> None:
    server = ServeProcess(folders["fill"], "--processes", processes, "--timeout", "60", "--max-wait", "60")
    server.wait_for("ready", int(processes))
    # Large ones, so that each client has one under way when the signal arrives.
    with Load(server.port, "/embed", {"inputs": ["a b c d e f g h"] * 300}, num_clients=8).running() as load:
        server.wait_until(lambda: len(load.outcomes) > 10)
        # On a busy machine a request may be under way for long before the server reads it.
        surely_read_s = min(one.seconds for one in load.outcomes[:10]) / 2
        sent_at = time.monotonic()
        server.signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    server._reader.join(60)
    accepted = {one.id: one.result for one in load.outcomes if isinstance(one.result, int)}
    assert set(accepted.values()) <= {200, 503}
    before = [one for one in load.outcomes if one.sent_at < sent_at - surely_read_s]
    assert any(one.sent_at + one.seconds > sent_at for one in before), "none was under way"
    assert {one.result for one in before} == {200}
    # Whatever the server worked on has reached its client with the same status.
    logged = {line["id"]: line["status"] for line in server.requests()}
    assert {name: accepted.get(name) for name in logged if name.startswith("load-")} == {
        name: status for name, status in logged.items() if name.startswith("load-")
    }


def test_sighup_with_a_broken_folder_changes_nothing_and_with_a_good_one_no_request_is_lost(
    tmp_path: Path,
) -> None:
    folder = write_small("fill", tmp_path / "fill")
    server = ServeProcess(str(folder), "--exact", "--threads", "1", "--timeout", "60", "--max-wait", "60")
    server.wait_for("ready")
    old = server.ask(*EMBED)[1]
    with Load(server.port, *EMBED).running() as load:
        weights = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(weights[:-100])
        server.signal(signal.SIGHUP)
        server.wait_for("not reloaded; the models from before still answer")
        assert server.ask(*EMBED) == (200, old)
        write_small("fill", folder, seed=9)
        server.signal(signal.SIGHUP)
        server.wait_for("reloaded")
        new = server.ask(*EMBED)[1]
    assert server.stop() == 0
    assert new != old
    assert {one.result for one in load.outcomes} == {200}
    assert {one.body for one in load.outcomes} <= {old, new}


def test_a_thread_that_hangs_costs_its_request_alone(
    live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = live.front.service
    right, held = service.models["fill"].embed_group, Held()
    service.models["fill"].__dict__["embed_group"] = held
    hanging = threading.Thread(
        target=lambda: answers.append(live.post(*EMBED, "x-request-timeout-ms: 300\r\n"))
    )
    answers: list[tuple[int, bytes]] = []
    hanging.start()
    assert held.has_started.wait(60)
    service.models["fill"].__dict__["embed_group"] = right
    assert live.post(*EMBED)[0] == 200  # by the other thread
    hanging.join(60)
    assert answers[0][0] == 504
    monkeypatch.setattr(workers, "HANGS_AFTER_S", 0.1)
    health = live.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    assert health.startswith(b"HTTP/1.1 503")
    monkeypatch.setattr(workers, "LOST_AFTER_S", 0.1)
    live.thread.join(60)
    held.may_end.set()
    assert live.code == 1  # whoever watches the process starts it again


def test_a_fifth_of_all_clients_that_leave_disturb_nobody(live: LiveServer) -> None:
    rng, leaves = random.Random(0), threading.Event()

    def leave_again_and_again() -> None:
        while not leaves.is_set():
            with live.connect() as connection:
                connection.sendall(request_bytes("/embed", b'{"inputs": ["a b c d e f"]}'))
                time.sleep(rng.random() * 0.004)  # before, while and after it is computed

    leaver = threading.Thread(target=leave_again_and_again)
    leaver.start()
    with Load(live.port, *EMBED, num_clients=4).running() as load:
        while len(load.outcomes) < 200:
            time.sleep(0.01)
    leaves.set()
    leaver.join(60)
    assert {one.result for one in load.outcomes} == {200}
    service = live.front.service
    ends_at = time.monotonic() + 60
    while not service.queue.is_idle() and time.monotonic() < ends_at:
        time.sleep(0.01)
    assert service.queue.is_idle()
    assert live.front.metrics.cancelled.values[()] > 0
    assert service.workers.problem() is None


def test_slow_readers_hold_up_nobody(live: LiveServer) -> None:
    large = b'{"inputs": [' + b",".join([b'"a b c d e f g h i j k l m n o p"'] * 500) + b"]}"
    readers: list[socket.socket] = []
    try:
        for _ in range(8):
            reader = socket.socket()
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", live.port))
            reader.sendall(request_bytes("/embed_all", large))
            readers.append(reader)
        for _ in range(50):
            assert live.post(*EMBED)[0] == 200
        # One that reads at last gets all of it.
        received = b""
        readers[0].settimeout(20)
        while b"\r\n\r\n" not in received:
            received += readers[0].recv(65536)
        head, _, body = received.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(body) < length:
            body += readers[0].recv(65536)
        assert body.endswith(b"]]]")
    finally:
        for reader in readers:
            reader.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_for_the_log_loses_lines_and_no_request(folders: dict[str, str]) -> None:
    with open("/dev/full", "w") as full:
        server = ServeProcess(folders["fill"], stderr=full)
    server.wait_until(lambda: server.ask("/readyz")[0] == 200)
    assert [server.ask(*EMBED)[0] for _ in range(5)] == [200] * 5
    server.signal(signal.SIGHUP)
    assert [server.ask(*EMBED)[0] for _ in range(5)] == [200] * 5
    assert server.stop() == 0
