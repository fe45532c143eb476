"""Serve a model, ask it in three dialects, embed a folder of files, and stop half-way.

Purpose:   chapter 10 of the handbook as one script.
Data:      none; the model that comes with the package, and a few texts in a temporary folder.
Prints:    the address, answers of three dialects, what a job over files did, and what it did the second time.
Run time:  a few seconds, nearly all of it importing torch.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import glassbert as gb

TEXTS = ("a cat", "a dog", "the stock market")


def wait_until_ready(address: str) -> None:
    """Ask the probe until the model is loaded."""
    for _ in range(1200):
        try:
            with urlopen(f"{address}/readyz"):
                return
        except URLError:
            time.sleep(0.05)
    raise SystemExit("the server did not start")


def post(address: str, path: str, body: Any) -> Any:
    """Send JSON and return the JSON of the answer."""
    headers = {"content-type": "application/json"}
    with urlopen(Request(f"{address}{path}", json.dumps(body).encode(), headers)) as answer:
        return json.load(answer)


def ask(address: str) -> None:
    """Ask in the dialects of OpenAI and of text-embeddings-inference, and in our own."""
    found = post(address, "/v1/embeddings", {"model": "demo", "input": TEXTS})
    print(f"/v1/embeddings: {len(found['data'])} vectors, {found['usage']['total_tokens']} tokens")
    near, far = post(
        address, "/similarity", {"inputs": {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}}
    )
    print(f"/similarity: the dog is nearer to the cat than the market is: {near > far}")
    filled = post(address, "/tasks/fill", {"inputs": ["The river flows into the [MASK]."], "top": 1})
    print(f"/tasks/fill: {filled['data'][0]['masks'][0][0]['token']}")


def embed_files(folder: Path) -> None:
    """Embed a folder of files twice; the second time there is nothing to do."""
    (folder / "in").mkdir()
    for number, text in enumerate(TEXTS):
        (folder / "in" / f"{number}.txt").write_text(f"{text}\n\n{text}\n", encoding="utf-8")
    for _ in range(2):
        result = gb.embed_files("demo", folder / "in", folder / "out")
        print(f"{len(result.files)} files, {result.rows} rows, {result.bad_rows} bad;", end=" ")
        print(f"{result.num_before} were done before")


def main() -> None:
    """Run the chapter."""
    command = [sys.executable, "-m", "glassbert", "serve", "demo", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        try:
            wait_until_ready(address)
            ask(address)
        finally:
            server.terminate()
        print(f"drained, exit code {server.wait()}")
    with tempfile.TemporaryDirectory() as scratch:
        embed_files(Path(scratch))


if __name__ == "__main__":
    main()
