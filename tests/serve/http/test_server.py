"""The life of a server: open before it is ready, answering to the end, reloading without a gap."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from glassbert.cli.main import main
from glassbert.errors import UserError
from glassbert.serve.front import Front
from glassbert.serve.http.listen import listen
from glassbert.serve.http.server import Binding, Server
from glassbert.serve.settings import ServeSettings
from helpers.asgi import Client
from helpers.fake_work import Deadly, Held
from helpers.live_server import LiveServer, request_bytes
from helpers.small_served import write_small

Started = Callable[..., LiveServer]
PATIENT = ServeSettings(threads=1, timeout=60, max_wait=60)


@pytest.fixture
def started(folders: dict[str, str]) -> Iterator[Started]:
    """Start a server over one model; it is stopped at the end."""
    servers: list[LiveServer] = []

    def start(front: Front | None = None, *, should_wait: bool = True, **binding: Any) -> LiveServer:
        front = front or Front({"fill": folders["fill"]}, PATIENT)
        live = LiveServer(front, **binding)
        live.front = front
        servers.append(live)
        while should_wait and front.state == "loading":
            time.sleep(0.005)
        return live

    yield start
    for live in servers:
        live.stop()


def in_background(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    return thread, found


def hold(front: Front) -> Held:
    """Let the next texts wait until they are let go."""
    assert front.service
    group = front.service.models["fill"].embed_group
    held = Held()
    held.run = lambda payloads: (held.has_started.set(), held.may_end.wait(60), group.run(payloads))[2]
    front.service.models["fill"].__dict__["embed_group"] = held
    return held


def test_it_lives_before_it_is_ready(started: Started, folders: dict[str, str]) -> None:
    front, may_load = Front({"fill": folders["fill"]}, PATIENT), threading.Event()
    load = front.start
    front.start = lambda: (may_load.wait(60), load())[1]
    live = started(front, should_wait=False)
    client = Client(front)
    assert client.get("/livez").status == 200
    for path in ("/readyz", "/health", "/v2/health/ready"):
        assert client.get(path).status == 503
    refused = client.post("/v1/embeddings", {"input": "a"})
    assert refused.status == 503
    assert int(refused.headers["retry-after"]) >= 1
    assert "loading" in refused.json()["error"]["message"]
    may_load.set()
    while front.state == "loading":
        time.sleep(0.005)
    assert live.post("/embed", {"inputs": "a"})[0] == 200
    assert client.get("/readyz").status == 200


def test_what_was_accepted_is_answered_before_the_end_and_what_comes_later_is_503(started: Started) -> None:
    live = started()
    held = hold(live.front)
    running, found = in_background(lambda: live.post("/embed", {"inputs": "a"}))
    assert held.has_started.wait(60)
    ending, _ = in_background(live.stop)
    while live.front.state != "draining":
        time.sleep(0.005)
    client = Client(live.front)
    late = client.post("/embed", {"inputs": "b"})
    assert late.status == 503
    assert late.headers["connection"] == "close"
    assert (client.get("/livez").status, client.get("/readyz").status) == (200, 503)
    held.may_end.set()
    running.join(60)
    ending.join(60)
    assert found[0][0] == 200
    assert live.code == 0


def test_while_it_leaves_it_still_accepts(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, is_over = asyncio.sleep, threading.Event()

    async def sleep(seconds: float) -> None:
        while seconds == 60 and not is_over.is_set():  # as long as this test needs
            await usual(0.005)
        await usual(0 if seconds == 60 else seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    live = started(drain_delay=60)
    live.server.loop.call_soon_threadsafe(live.server.end)
    while live.front.state != "leaving":
        time.sleep(0.005)
    assert Client(live.front).get("/readyz").status == 503
    assert live.post("/embed", {"inputs": "a"})[0] == 200
    is_over.set()
    live.thread.join(60)
    assert live.code == 0


def test_what_is_not_done_in_time_is_503_and_the_end_comes_anyway(started: Started) -> None:
    live = started(drain_timeout=0.2)
    held = hold(live.front)
    running, found = in_background(lambda: live.post("/embed", {"inputs": "a"}))
    assert held.has_started.wait(60)
    waiting, left = in_background(lambda: live.post("/embed", {"inputs": "b"}))
    while not live.front.service.queue.state().num_units:
        time.sleep(0.005)
    live.stop()
    held.may_end.set()
    for thread in (running, waiting):
        thread.join(60)
    assert left[0][0] == 503
    assert live.code == 0


def test_reload_takes_the_new_weights_and_loses_no_request(started: Started, tmp_path: Path) -> None:
    folder = write_small("fill", tmp_path / "fill")
    front = Front({"fill": str(folder)}, PATIENT)
    live = started(front)
    before = live.post("/embed", {"inputs": "a"})
    statuses: list[int] = []
    stop = threading.Event()

    def keep_asking() -> None:
        while not stop.is_set():
            statuses.append(live.post("/embed", {"inputs": "a b c"})[0])

    asking, _ = in_background(keep_asking)
    write_small("fill", folder, seed=9)
    front.reload()
    after = live.post("/embed", {"inputs": "a"})
    (folder / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(UserError):
        front.reload()
    # Another text may share the batch now, and float32 rounds by what is in it.
    status, body = live.post("/embed", {"inputs": "a"})
    assert (status, json.loads(body)[0]) == (200, pytest.approx(json.loads(after[1])[0], abs=1e-5))
    stop.set()
    asking.join(60)
    assert after != before
    assert statuses
    assert set(statuses) == {200}


def test_threads_that_die_again_and_again_end_the_server_with_code_1(started: Started) -> None:
    live = started()
    live.front.service.models["fill"].__dict__["embed_group"] = Deadly()
    for _ in range(3):
        assert live.post("/embed", {"inputs": "a"})[0] == 503
    live.thread.join(60)
    assert live.code == 1


def test_what_is_no_model_is_refused_before_there_is_an_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(tmp_path / "none"), "--port", "0"]) == 4
    reported = capsys.readouterr()
    assert not reported.out
    assert reported.err.count("\n") == 1


def test_a_port_in_use_is_one_line() -> None:
    for number in (1, 2):
        with listen("127.0.0.1", 0)[0] as taken, pytest.raises(UserError, match="choose another --port"):
            listen("127.0.0.1", taken.getsockname()[1], number)


def test_an_answer_does_not_wait_for_the_client_to_confirm_its_head(started: Started) -> None:
    live = started()
    with live.connect() as connection:
        connection.sendall(request_bytes("/livez", method="GET"))
        assert connection.recv(64).startswith(b"HTTP/1.1 200")
        (open_one,) = live.server._uvicorn.server_state.connections
        server_side = open_one.transport.get_extra_info("socket")
        assert server_side.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("host", ["a\0b", "\udcff", "a" * 5000, "203.0.113.7"])
def test_an_address_that_is_none_of_this_machine_is_refused_in_one_line(host: str) -> None:
    with pytest.raises(UserError, match="choose another --port or --host"):
        listen(host, 0)


def test_a_server_leaves_the_handlers_of_signals_as_they_were(folders: dict[str, str]) -> None:
    front = Front({"fill": folders["fill"]}, PATIENT)
    server = Server(front, front, Binding(port=0), front.log)

    def end_soon() -> None:
        while server.loop is None or front.state == "loading":
            time.sleep(0.005)
        server.loop.call_soon_threadsafe(server.end)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, lambda number, frame: None) for number in numbers]
    mine = [signal.getsignal(number) for number in numbers]
    try:
        threading.Thread(target=end_soon).start()
        assert server.run() == 0
        assert [signal.getsignal(number) for number in numbers] == mine
    finally:
        for number, known in zip(numbers, before, strict=True):
            signal.signal(number, known)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["{fill}", "--host", "0.0.0.0"], 2, "--api-key-file"),
        (["{fill}", "--api-key-file", "nowhere"], 2, "no such file"),
        (["{fill}", "{fill}"], 4, "two models are called"),
        ([], 4, "no model to serve"),
        (["/nowhere/at-all", "--port", "0"], 4, "nowhere"),
        (["{fill}", "--on-long", "forget"], 2, "on-long"),
    ],
)
def test_a_wrong_command_is_one_line(
    words: list[str], code: int, message: str, folders: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *(word.format(**folders) for word in words)]) == code
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_options_have_twins_in_the_environment(
    folders: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLASSBERT_THREADS", "1")
    monkeypatch.setenv("MODEL_ID", folders["tag"])
    assert main(["serve", "--check", "--json"]) == 0
    printed = capsys.readouterr().out
    assert '"threads": 1' in printed
    assert '"tasks": ["tag", "embed"]' in printed


def test_a_process_answers_drains_on_sigterm_and_reloads_on_sighup(folders: dict[str, str]) -> None:
    command = [
        sys.executable,
        "-m",
        "glassbert",
        "serve",
        folders["classify"],
        "--port",
        "0",
        "--threads",
        "1",
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "API_KEY": "open-sesame"},
    )
    try:
        assert process.stdout
        assert process.stderr
        port = int(process.stdout.readline().rpartition(":")[2])
        assert '"ready"' in process.stderr.readline()
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            key = b"authorization: Bearer open-sesame\r\nconnection: close\r\n"
            connection.sendall(b"GET /info HTTP/1.1\r\nhost: localhost\r\n" + key + b"\r\n")
            assert connection.recv(64).startswith(b"HTTP/1.1 200")
        process.send_signal(signal.SIGHUP)
        lines = [process.stderr.readline(), process.stderr.readline()]
        assert any('"reloaded"' in line for line in lines)
        process.terminate()
        assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
