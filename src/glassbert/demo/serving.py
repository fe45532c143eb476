"""The last part of the demo: a server of the fine-tuned model, three kinds of clients, and its end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import glassbert as gb
from glassbert.demo.story import Story
from glassbert.demo.tasks import TEXTS
from glassbert.errors import RunFailed, UserError
from glassbert.parsing import json_text, parse_json
from glassbert.serve.installed import check_installed

NUM_LAST = 64
"""Texts of the request that is in progress when the server is asked to stop."""
START_S = 60.0


def show_serving(story: Story, folder: Path) -> None:
    """Serve the classifier, query it in three dialects and with the clients that are installed, drain it."""
    with story.step("Serve it over HTTP, in the dialects that clients speak", "glassbert serve classify"):
        try:
            check_installed()
        except UserError as missing:
            story.log(f"left out: {missing}")
            story.numbers["serve"] = None
            return
        with _server(folder / "classify") as (process, address):
            story.numbers["serve"] = {
                "answers": _ask(story, address),
                "difference": _compare(story, folder, address),
                **_drain(story, process, address),
            }


@contextmanager
def _server(model: Path) -> "Iterator[tuple[subprocess.Popen[str], str]]":
    """Yield a server in a process of its own, ready, and its address."""
    command = [sys.executable, "-m", "glassbert", "serve", str(model), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        _wait_until_ready(process, address)
        yield process, address
    finally:
        process.kill()
        process.communicate()


def _wait_until_ready(process: "subprocess.Popen[str]", address: str) -> None:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urlopen(f"{address}/readyz", timeout=5):
                return
        except URLError:
            time.sleep(0.05)
    raise RunFailed("the server did not start; try `glassbert serve demo --check`")


def _post(address: str, path: str, body: Any) -> Any:
    headers = {"content-type": "application/json"}
    with urlopen(Request(f"{address}{path}", json_text(body).encode(), headers), timeout=60) as answer:
        return parse_json(answer.read())


def _ask(story: Story, address: str) -> dict[str, str]:
    """Ask what the first text is about, in each dialect; the answers must agree."""
    text = TEXTS[0]
    story.log(f"{address}: {text}")
    first = {
        "POST /predict (text-embeddings-inference)": _post(address, "/predict", {"inputs": text})[0],
        "POST /text-classification (Hugging Face)": _post(
            address, "/text-classification", {"inputs": text, "parameters": {"top_k": 1}}
        )[0][0],
        "POST /tasks/classify (our own)": _post(address, "/tasks/classify", {"inputs": [text]})["data"][0],
    }
    if find_spec("huggingface_hub") and not os.environ.get("HF_HUB_OFFLINE"):
        from huggingface_hub import InferenceClient

        found = InferenceClient(address).text_classification(text, top_k=1)[0]
        first["huggingface_hub.InferenceClient"] = {"label": found.label, "score": found.score}
    for client, one in first.items():
        story.log(f"  {client:<44} {one['label']} {one['score']:.3f}")
    body = {"model": "classify", "input": [text], "dimensions": 4}
    vector = _post(address, "/v1/embeddings", body)["data"][0]["embedding"]
    shown = ", ".join(f"{number:.3f}" for number in vector)
    story.log(f"  {'POST /v1/embeddings (OpenAI)':<44} [{shown}]")
    return {client: one["label"] for client, one in first.items()}


def _compare(story: Story, folder: Path, address: str) -> float:
    """Return the largest difference between the server's scores and those of Python."""
    answers = _post(address, "/tasks/classify", {"inputs": TEXTS})["data"]
    expected = gb.load(folder / "classify", gb.Model).predict(TEXTS, gb.ClassPrediction)
    difference = max(
        abs(one["scores"][label] - score)
        for one, other in zip(answers, expected, strict=True)
        for label, score in other.scores.items()
    )
    story.log(f"largest difference from Python: {difference:.1e}")
    return difference


def _drain(story: Story, process: "subprocess.Popen[str]", address: str) -> dict[str, int | None]:
    """Ask the server to end while it works; it answers first."""
    texts = [TEXTS[number % len(TEXTS)] for number in range(NUM_LAST)]
    with ThreadPoolExecutor(1) as pool:
        last = pool.submit(_post, address, "/tasks/classify", {"inputs": texts})
        while not last.done() and "te_queue_size 0\n" in _metrics(address):
            pass  # until it is in the queue
        process.send_signal(signal.SIGTERM)
        answered = len(last.result()["data"])
    code = process.wait(START_S)
    story.log(
        f"SIGTERM while {NUM_LAST} texts were asked: {answered} answered, then it ended (exit code {code})"
    )
    return {"answered": answered, "exit_code": code}


def _metrics(address: str) -> str:
    with urlopen(f"{address}/metrics", timeout=5) as answer:
        return str(answer.read(), "utf-8")
