"""Run folders as the server sees them: logs that grow, break and start again; nothing outside the folder."""

import asyncio
import io
import json
import os
from pathlib import Path

import pytest

from glassbert.errors import UserError
from glassbert.page.app import Page, in_shell
from glassbert.page.run_folder import MovesRequest, RunFolder, Tail
from glassbert.page.work import event
from glassbert.serve.http.log import Log
from helpers.asgi import Client
from page.conftest import TOKEN, PageClient


def row(step: int) -> bytes:
    return json.dumps({"step": step, "mlm_loss": 1.5}).encode() + b"\n"


def test_a_tail_reads_whole_lines_only(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "metrics.jsonl")
    assert tail.read() == (False, [])
    tail.path.write_bytes(row(1) + b'{"step": 2, "ml')
    assert tail.read() == (True, [{"step": 1, "mlm_loss": 1.5}])
    assert tail.read() == (False, [])
    with tail.path.open("ab") as file:
        file.write(b'm_loss": 0.5}\n')
    assert tail.read() == (False, [{"step": 2, "mlm_loss": 0.5}])


def test_damaged_lines_are_counted_and_left_out(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "metrics.jsonl")
    odd = [
        b"[]",
        b"\xff\xfe",
        b"{",
        b"null",
        b'{"loss": 1}',
        b'{"step": "x"}',
        b'{"step": 2, "loss": "high"}',
    ]
    tail.path.write_bytes(row(1) + b"\n".join(odd) + b"\n" + row(3))
    assert tail.read() == (True, [{"step": 1, "mlm_loss": 1.5}, {"step": 2}, {"step": 3, "mlm_loss": 1.5}])
    assert tail.num_damaged == 6


def test_what_is_not_a_log_keeps_nobody_waiting(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "metrics.jsonl")
    os.mkfifo(tail.path)
    assert tail.read() == (False, [])
    tail.path.unlink()
    tail.path.write_bytes(b"x" * 2_000_000 + b"\n" + row(3))
    found = [tail.read() for _ in range(6)]
    assert [step["step"] for _, rows in found for step in rows] == [3]
    assert tail.num_damaged > 0


@pytest.mark.parametrize("steps", ["nan", "2020-01-01", "[[1]]", "true", '"many"', "{ a = 1 }"])
def test_a_recipe_with_odd_steps_is_still_shown(tmp_path: Path, steps: str) -> None:
    (tmp_path / "recipe.toml").write_text(f"[train]\nsteps = {steps}\n")
    assert event("run", RunFolder(tmp_path).state())
    assert RunFolder(tmp_path).state()["steps"] is None


def test_a_log_that_a_resumed_run_replaced_comes_anew(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "metrics.jsonl")
    tail.path.write_bytes(row(1) + row(2))
    tail.read()
    (tmp_path / "new").write_bytes(row(1))
    (tmp_path / "new").replace(tail.path)
    assert tail.read() == (True, [{"step": 1, "mlm_loss": 1.5}])
    tail.path.write_bytes(row(7)[:-1])  # cut in its place
    assert tail.read() == (True, [])
    tail.path.unlink()
    assert tail.read() == (True, [])


def test_a_long_log_comes_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassbert.page.run_folder._PORTION_BYTES", 100)
    tail = Tail(tmp_path / "metrics.jsonl")
    tail.path.write_bytes(b"".join(row(step) for step in range(20)))
    steps = [one["step"] for _ in range(30) for one in tail.read()[1]]
    assert steps == list(range(20))


def test_only_models_of_the_run_can_be_asked_for(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(row(1))
    run = RunFolder.of(tmp_path)
    assert run is not None
    for name in ("../other", "/etc", "checkpoint-1", ""):
        with pytest.raises(UserError, match="choose one of those listed"):
            run.moves(MovesRequest(name, name))


def test_a_log_of_huge_numbers_and_a_name_of_odd_bytes_are_shown(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/run-\xff"))
    odd.mkdir()
    (odd / "metrics.jsonl").write_bytes(b'{"step": 1' + b"0" * 30 + b', "mlm_loss": 1' + b"0" * 40 + b"}\n")
    page = Page(token=TOKEN)
    page.run = RunFolder.of(odd)
    client = Client(in_shell(page, Log(io.StringIO())))
    assert client.get(f"/{TOKEN}/api/meta").json()["run"] == "run-\\udcff"

    async def first_events() -> bytes:
        asked = asyncio.ensure_future(
            client.sent("GET", f"/{TOKEN}/api/run/events", None, {}, asyncio.Event())
        )
        await asyncio.sleep(0.3)
        page.is_closing = True
        return (await asyncio.wait_for(asked, 5)).body

    body = asyncio.run(first_events())
    assert (body.count(b"event: log"), body.count(b"event: run")) == (1, 1)


def test_a_model_folder_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "metrics.jsonl").write_bytes(row(1))
    assert RunFolder.of(tmp_path) is None
    assert RunFolder.of(tmp_path / "nothing") is None


def test_the_stream_ends_with_its_client_and_with_the_server(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(row(1))
    page = Page(token=TOKEN)
    page.run = RunFolder.of(tmp_path)
    client = Client(in_shell(page, Log(io.StringIO())))

    async def first_events(*, by_leaving: bool) -> bytes:
        leaves = asyncio.Event()
        asked = asyncio.ensure_future(client.sent("GET", f"/{TOKEN}/api/run/events", None, {}, leaves))
        await asyncio.sleep(0.3)
        if by_leaving:
            leaves.set()
        else:
            page.is_closing = True
        return (await asyncio.wait_for(asked, 5)).body

    for by_leaving in (True, False):
        body = asyncio.run(first_events(by_leaving=by_leaving)).decode()
        assert body.count("event: log") == 1
        assert '"mlm_loss":1.5' in body
        assert body.count("event: run") == 1


def test_without_a_run_there_is_nothing_to_follow(page: PageClient) -> None:
    assert page.get("api/run/events").status == 404
    assert page.post("api/run/moves", {"before": "a", "after": "b"}).status == 404
    assert page.post("api/run/show", {"saved": "best"}).status == 404
