"""Long work on the page: progress as events, then the result or a reason; it ends when nobody waits."""

import asyncio
import io
import json
import threading
import time
from typing import Any

import pytest

import glassbert as gb
from glassbert.page import app as page_app
from glassbert.page.app import Page, in_shell
from glassbert.page.workbench import Workbench
from glassbert.progress import each
from glassbert.serve.http.log import Log
from helpers.asgi import Client
from page.conftest import TOKEN, PageClient

EVENTS = "text/event-stream"


def events(body: bytes) -> list[tuple[str, Any]]:
    """Return the events of a stream."""
    found = []
    for part in body.decode().split("\n\n")[:-1]:
        name, data = part.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_the_result_of_a_stream_is_that_of_a_plain_request(page: PageClient) -> None:
    asked = {"text": "The cat [MASK].", "method": "heads"}
    streamed = page.post("api/why", asked, accept=EVENTS)
    assert streamed.headers["content-type"] == EVENTS
    *progress, (name, found) = events(streamed.body)
    assert {kind for kind, _ in progress} <= {"progress"}
    assert name == "result"
    assert found == page.post("api/why", asked).json()


def test_an_experiment_says_how_far_it_is(page: PageClient) -> None:
    asked = {"name": "masks", "settings": {"num_seeds": 2, "num_steps": 6}}
    *progress, (name, found) = events(page.post("api/lab", asked, accept=EVENTS).body)
    shares = [one["share"] for kind, one in progress if kind == "progress"]
    assert len(shares) >= 2
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] < 1
    assert (name, found["name"]) == ("result", "masks")


def test_a_refusal_ends_a_stream(page: PageClient) -> None:
    ((name, problem),) = events(page.post("api/pretrain", {"text": " "}, accept=EVENTS).body)
    assert (name, problem["status"]) == ("problem", 422)
    assert "blank" in problem["error"]


class Slow:
    """Work of many steps, and how many of them were done."""

    def __init__(self) -> None:
        self.begun, self.num_done, self.is_over = threading.Event(), 0, threading.Event()

    def __call__(self, *_: object) -> str:
        try:
            for _ in each(range(1000)):
                self.begun.set()
                time.sleep(0.01)
                self.num_done += 1
            return "done"
        finally:
            self.is_over.set()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    work = Slow()
    monkeypatch.setattr(page_app, "run_experiment", work)
    return work


@pytest.mark.parametrize("accept", [EVENTS, "application/json"])
def test_work_ends_when_its_client_leaves_and_the_newest_request_wins(
    slow: Slow, workbench: Workbench, accept: str
) -> None:
    client = Client(in_shell(Page(workbench, token=TOKEN), Log(io.StringIO())))

    async def both() -> Any:
        leaves = asyncio.Event()
        path, body = f"/{TOKEN}/api/lab", {"name": "masks"}
        old = asyncio.ensure_future(client.sent("POST", path, body, {"accept": accept}, leaves))
        waiting = asyncio.ensure_future(client.sent("POST", path, body, {}, leaves))
        await asyncio.to_thread(slow.begun.wait, 10)
        leaves.set()
        started_at = time.monotonic()
        newest = await client.sent("POST", f"/{TOKEN}/api/trace", {"text": "a b"}, {})
        took = time.monotonic() - started_at
        await asyncio.gather(old, waiting, return_exceptions=True)
        return newest, took

    newest, took = asyncio.run(both())
    assert newest.status == 200
    assert slow.is_over.is_set()
    assert slow.num_done < 500  # ended long before its thousand steps; the one behind it never began
    assert took < 8


def test_the_answers_of_a_model_are_not_changed_by_listening(page: PageClient) -> None:
    text = "The capital of France is [MASK]."
    *_, (_, found) = events(page.post("api/why", {"text": text}, accept=EVENTS).body)
    expected = gb.load("demo", gb.Model).why(text).to_json()
    assert {name: found[name] for name in expected if name != "unit"} == {
        name: value for name, value in expected.items() if name != "unit"
    }
