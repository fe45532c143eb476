"""What goes wrong around the page: one clear line on the page and in the log, and the server stays up."""

import contextlib
import io
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from glassbert.page.app import Page, in_shell
from glassbert.page.server import PageBackend
from glassbert.page.workbench import Workbench
from glassbert.serve.http.log import Log
from helpers.asgi import Client
from helpers.browsing import needs_browser, opened, settle, show, watch
from helpers.small_served import write_small
from page.conftest import TOKEN, PageClient

ODD = {
    "emoji": "👩‍👩‍👧 loves [MASK] 🍜",
    "right to left": "שלום [MASK] وسلام",
    "10,000 characters": "[MASK]" + "word " * 1_998,
    "no letters": "\u200b . [MASK] ?",
    "markup": "<img src=x onerror=alert(1)> & <b>[MASK]",
}

PUSH_OUT = """() => fetch('api/trace', { method: 'POST', body: '{"text": "e f"}',
    headers: { 'content-type': 'application/json' } }).then((answer) => answer.text())"""


def in_browser(test: Any) -> Any:
    """Mark a test that needs a browser."""
    for mark in needs_browser:
        test = mark(test)
    return test


def client_of(folder: Path | str, log: io.StringIO | None = None, **options: Any) -> PageClient:
    return PageClient(
        Client(in_shell(Page(Workbench(folder, **options), token=TOKEN), Log(log or io.StringIO())))
    )


def damaged(folder: Path, name: str, value: float) -> Path:
    """Write a model one of whose weights holds a number that is none."""
    write_small("classify", folder)
    weights = load_file(folder / "model.safetensors")
    weights[name][9, 4] = value
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_weights_that_are_not_numbers_are_told_and_health_names_them(tmp_path: Path) -> None:
    log, reported = io.StringIO(), io.StringIO()
    backend = PageBackend(
        damaged(tmp_path, "bert.encoder.layer.1.intermediate.dense.weight", np.nan), Log(log)
    )
    with contextlib.redirect_stderr(reported):
        backend.start()
    client = Client(backend.app)
    response = client.get(f"/{backend.token}/api/meta")
    assert response.status == 422
    assert "intermediate.dense.weight holds NaN or infinity" in response.json()["error"]
    verdicts = client.post(f"/{backend.token}/api/health", {}).json()["verdicts"]
    faults = [one["finding"]["en"] for one in verdicts if one["state"] == "fault"]
    assert any("intermediate.dense.weight" in one for one in faults)
    assert "cannot be loaded" in log.getvalue()
    assert reported.getvalue().count("\n") == 1


def test_what_is_no_model_ends_the_start_with_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "glassbert", "open", str(tmp_path), "--no-browser"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    reported = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert done.returncode == 4
    assert len(reported) == 1
    assert not done.stdout  # no address of a page that never comes


def test_a_folder_that_is_deleted_leaves_the_model_at_work(tmp_path: Path) -> None:
    folder = write_small("classify", tmp_path / "model")
    client = client_of(folder)
    before = client.post("api/trace", {"text": "a b"}).json()["places"]
    shutil.rmtree(folder)
    assert client.post("api/trace", {"text": "a b"}).json()["places"] == before
    for response in (client.post("api/health", {}), client.get("api/params")):  # these read the folder
        assert response.status == 422
        assert "folder" in response.json()["error"]
    assert client.get("api/vocabulary").status == 200


def test_a_port_in_use_is_told_in_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "glassbert", "open", "demo", "--no-browser", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert f"127.0.0.1:{port}" in done.stderr
    assert "another --port" in done.stderr


def test_refusals_are_in_the_log_without_the_text(tmp_path: Path) -> None:
    log = io.StringIO()
    client = client_of("demo", log)
    client.post("api/trace", {"text": " "})
    client.get("api/meta", origin="http://evil.example")
    client.client.get("/wrong-token/api/meta")
    logged = log.getvalue()
    assert '"status":422' in logged
    assert logged.count('"status":403') == 2
    assert TOKEN not in logged


# The browser's tests come last: its loop runs in this thread from the first one on.


@in_browser
def test_a_vocabulary_that_does_not_fit_is_told_on_the_page(browser: Any, tmp_path: Path) -> None:
    folder = write_small("fill", tmp_path / "model")
    with (folder / "vocab.txt").open("a", encoding="utf-8") as file:
        file.write("".join(f"more{number}\n" for number in range(50)))
    (folder / "tokenizer.json").unlink(missing_ok=True)
    tab = browser.new_page()
    with opened(folder) as address:
        tab.goto(f"{address}#/health")
        reported = tab.wait_for_selector("[role=alert] >> text=Health").inner_text()
        assert "110" in reported
        assert "60" in reported
        tab.wait_for_selector(".verdicts .fault")
        tab.close()


@pytest.mark.parametrize("kind", ODD)
@in_browser
def test_odd_text_is_shown_as_it_is_on_every_page_of_the_text(tab: Any, address: str, kind: str) -> None:
    show(tab, address, "start", text=ODD[kind])
    tab.wait_for_selector(".tokens")
    assert tab.query_selector("[role=alert]") is None
    pages = ["flow", "attention", "compare", *(["why"] if len(ODD[kind]) < 100 else [])]
    for page in pages:
        tab.evaluate("(page) => { location.hash = location.hash.replace(/^#.[a-z]+/, '#/' + page) }", page)
        settle(tab)
        assert tab.query_selector("[role=alert]") is None, page
        assert tab.evaluate("document.documentElement.scrollWidth") <= 1280, page
    assert tab.query_selector("main img") is None


@in_browser
def test_two_tabs_show_two_texts(tab: Any, address: str) -> None:
    show(tab, address, "start", text="The first text.")
    other = tab.context.new_page()
    show(other, address, "start", text="Another one entirely.")
    other.wait_for_selector(".tokens >> text=another")
    tab.evaluate("() => { location.hash = location.hash.replace('start', 'flow') }")
    tab.wait_for_selector(".stage .digits")
    assert "first" in tab.inner_text(".tokens")
    other.close()


@in_browser
def test_the_newest_of_many_texts_wins(tab: Any, address: str) -> None:
    show(tab, address, "start")
    tab.evaluate(
        """() => { for (let i = 0; i < 12; i++)
             location.hash = '#/start?text=' + encodeURIComponent(`Number ${i} ` + 'word '.repeat(60)) }"""
    )
    tab.wait_for_selector(".tokens >> text=11")
    settle(tab)
    assert tab.query_selector("[role=alert]") is None
    assert "11" in tab.inner_text(".tokens")


@in_browser
def test_a_trace_that_is_gone_is_asked_for_again(browser: Any, tmp_path: Path) -> None:
    small = "from glassbert.page import workbench; workbench.CACHE_BYTES = workbench.MIN_TRACES = 1"
    tab = browser.new_page()
    watch(tab)
    with opened(write_small("classify", tmp_path / "model"), before=small) as address:
        show(tab, address, "flow", text="a b c d")
        tab.wait_for_selector(".stage .digits")
        for page, button in (("flow", ".tokens li:nth-child(2) button"), ("attention", ".picker select")):
            tab.evaluate(f"location.hash = '#/{page}?text=a b c d'")
            tab.wait_for_selector(button)
            settle(tab)
            tab.evaluate(PUSH_OUT)
            if page == "flow":
                tab.click(button)
            else:
                tab.select_option(button, "1")
            tab.wait_for_selector('[data-step="emb.sum"] .digits' if page == "flow" else "figure.matrix")
            settle(tab)
            assert tab.query_selector("[role=alert]") is None
        assert tab.failures == []
        tab.close()


@in_browser
def test_a_server_that_ends_is_told_on_the_page(browser: Any, tmp_path: Path) -> None:
    tab = browser.new_page()
    with opened(write_small("classify", tmp_path / "model")) as address:
        tab.goto(address)
        tab.wait_for_selector(".tokens")
    tab.evaluate("() => { location.hash = '#/start?text=a%20c' }")
    tab.wait_for_selector("[role=alert] >> text=glassbert open")
    tab.close()


@in_browser
def test_an_address_with_an_old_token_is_told_on_the_page(browser: Any, tmp_path: Path) -> None:
    folder, tab = write_small("classify", tmp_path / "model"), browser.new_page()
    with opened(folder) as old:
        tab.goto(old)
        tab.wait_for_selector(".tokens")
    port = old.split(":")[2].split("/")[0]
    with opened(folder, "--port", port) as new:
        assert new != old
        tab.evaluate("() => { location.hash = '#/start?text=a%20c' }")
        assert "old token" in tab.wait_for_selector("[role=alert]").inner_text()
        tab.goto(old)  # the page itself
        assert "the token that `glassbert open` printed last" in tab.inner_text("body")
        tab.close()
