"""Several processes over one port: shared weights, restarts, reloads, one count of everything."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from glassbert.serve.metrics import Metrics
from glassbert.serve.slots import SLOT_BYTES, Slots
from helpers.serve_process import Load, ServeProcess
from helpers.small_served import write_small


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small("fill", tmp_path_factory.mktemp("processes") / "fill")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServeProcess]:
    """Two processes over one model; each test leaves two that answer."""
    one = ServeProcess(str(folder), "--processes", "2", "--exact", "--timeout", "60", "--max-wait", "60")
    assert one.ask("/livez")[0] == 200  # long before torch is there
    assert one.ask("/readyz")[0] == 503
    one.wait_for("ready", 2)
    one.wait_until(lambda: len(one.children()) == 2)  # the one that answered until then has ended
    yield one
    assert one.stop() == 0
    assert "Traceback" not in "".join(one.lines)


EMBED = ("/embed", {"inputs": "a b c"})


def counted(server: ServeProcess, name: str) -> float:
    text = server.ask("/metrics")[1].decode()
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    assert found
    return float(found[1])


def wait_until_counted(server: ServeProcess) -> None:
    """Wait until every request has its line in the log, and every process knows the numbers of the others."""
    last = f"last-{len(server.lines)}"
    assert server.ask(*EMBED, x_request_id=last)[0] == 200
    server.wait_until(lambda: any(one["id"] == last for one in server.requests()))
    num_logged = sum(one.get("route") == "/embed" for one in server.requests())
    # Either process may answer: ten times the same number, and both know it, even if one is killed now.
    name = 'te_request_count{method="single"}'
    server.wait_until(lambda: all(counted(server, name) == num_logged for _ in range(10)))


def memory_of(process: int) -> dict[str, int]:
    """Return the kinds of memory of a process, in kB."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) for line in lines}


def test_both_processes_answer_and_share_what_was_loaded(server: ServeProcess) -> None:
    with Load(server.port, *EMBED, num_clients=8).running() as load:
        server.wait_until(lambda: len(load.outcomes) > 60)
    assert {one.result for one in load.outcomes} == {200}
    assert len({one.body for one in load.outcomes}) == 1
    children = server.children()
    assert len(children) == 2
    assert all(_cpu_ticks(child) > 0 for child in children)
    assert all(is_a_fork(child) for child in children)
    wait_until_counted(server)


def is_a_fork(process: int) -> bool:
    """Return whether nearly everything of a process is its parent's: torch, its tables, the weights."""
    memory = memory_of(process)
    return memory["Private_Clean"] + memory["Private_Dirty"] < 0.35 * memory["Rss"]


def _cpu_ticks(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_a_killed_process_is_replaced_and_no_counter_falls(server: ServeProcess) -> None:
    wait_until_counted(server)
    # The least of several is what the survivor knows: the last second of a killed process is lost.
    cpu_before = min(counted(server, "process_cpu_seconds_total") for _ in range(10))
    victim, survivor = server.children()
    num_ready = len(server.events("ready"))
    os.kill(victim, signal.SIGKILL)
    server.wait_for("ready", num_ready + 1)
    server.wait_until(lambda: victim not in server.children())
    assert survivor in server.children()
    assert len(server.children()) == 2
    assert all(is_a_fork(child) for child in server.children())  # a start from nothing would take seconds
    assert [server.ask(*EMBED)[0] for _ in range(6)] == [200] * 6
    wait_until_counted(server)
    assert counted(server, "glassbert_process_restarts_total") == 1
    assert counted(server, "process_cpu_seconds_total") >= cpu_before


def test_a_reload_reaches_all_processes_and_loses_no_request(server: ServeProcess, folder: Path) -> None:
    old = server.ask(*EMBED)[1]
    olds, num_ready = server.children(), len(server.events("ready"))
    write_small("fill", folder, seed=9)
    with Load(server.port, *EMBED).running() as load:
        server.signal(signal.SIGHUP)
        server.wait_for("reloaded")
        server.wait_for("ready", num_ready + 2)
        server.wait_until(lambda: not set(olds) & set(server.children()))
    assert {one.result for one in load.outcomes} == {200}
    news = {server.ask(*EMBED)[1] for _ in range(6)}
    assert len(news) == 1
    assert old not in news
    assert {one.body for one in load.outcomes} <= {old, *news}


def test_a_broken_folder_changes_nothing(server: ServeProcess, folder: Path) -> None:
    before, children = server.ask(*EMBED)[1], server.children()
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(b"broken")
    try:
        server.signal(signal.SIGHUP)
        server.wait_for("not reloaded; the models from before still answer")
    finally:
        (folder / "model.safetensors").write_bytes(weights)
    assert server.children() == children
    assert server.ask(*EMBED) == (200, before)
    assert str(folder) not in "".join(server.lines)


def test_children_end_with_their_parent(folder: Path) -> None:
    server = ServeProcess(str(folder), "--processes", "2")
    server.wait_for("ready", 2)
    children = server.children()
    server.kill()
    server.wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def test_a_model_that_cannot_be_loaded_is_one_line(tmp_path: Path) -> None:
    write_small("fill", tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"damaged")
    server = ServeProcess(str(tmp_path), "--processes", "2")
    assert server.process.wait(60) == 4
    server._reader.join(5)
    assert len(server.lines) == 1
    assert "model.safetensors" in server.lines[0]


def test_what_a_slot_holds_is_read_whole_or_not_at_all() -> None:
    slots = Slots(2)
    assert slots.read(0) is None
    slots.write(0, {"a": 1})
    slots.write(1, ["other"])
    slots.write(0, {"too long": "x" * SLOT_BYTES})
    assert (slots.read(0), slots.read(1)) == ({"a": 1}, ["other"])
    slots._memory[9] ^= 1  # as if its writer had been killed half way
    assert slots.read(0) is None


def test_numbers_of_processes_are_added_and_estimates_are_the_longest() -> None:
    first, second = Metrics(), Metrics()
    for metrics, wait_s in ((first, 3.0), (second, 5.0)):
        metrics.requests.add(2, method="single")
        metrics.gauge("wait", "Wait.", lambda wait_s=wait_s: [({}, wait_s)], "max")
    second.answers.add(route="/only-there")
    shown = json.loads(json.dumps(second.snapshot()))
    first.other_processes = lambda: [shown]
    text = first.render()
    assert 'te_request_count{method="single"} 4' in text
    assert "\nwait 5\n" in text
    assert 'glassbert_requests_total{route="/only-there"} 1' in text
    assert "wait" not in first.lasting(shown)


@pytest.mark.parametrize("name", ["process_cpu_seconds_total", "glassbert_worker_restarts_total"])
def test_what_only_grows_is_a_counter_that_outlives_its_process(name: str) -> None:
    metrics = Metrics()
    assert f"# TYPE {name} counter" in metrics.render()
    assert set(metrics.lasting(metrics.snapshot())[name]) == {name}
