"""Bodies and queries for the server and for the page, answered without a socket."""

import io
import json
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st

from fuzz.cases import HOSTILE, json_cases
from glassbert.page.app import Page, in_shell
from glassbert.page.workbench import Workbench
from glassbert.serve.front import Front
from glassbert.serve.http.log import Log
from glassbert.serve.settings import ServeSettings
from helpers.asgi import Client
from helpers.small_served import write_all, write_small

BODIES: dict[str, Any] = {
    "/models/fill/embed": {"inputs": ["a b", "c"], "truncate": True, "normalize": False},
    "/models/fill/v1/embeddings": {"input": ["a"], "model": "fill", "encoding_format": "base64"},
    "/models/fill/v2/embed": {"texts": ["a"], "input_type": "search_query", "embedding_types": ["float"]},
    "/models/fill/tasks/fill": {"text": "a [MASK]", "top": 3},
    "/models/fill/tokenize": {"inputs": ["a"]},
    "/models/fill/decode": {"ids": [[5, 6]]},
    "/models/classify/predict": {"inputs": [["a"], ["b"]], "raw_scores": True},
    "/models/tag/tag": {"inputs": "a b"},
    "/models/answer/answer": {"question": "a", "context": "b c"},
    "/models/pair/tasks/pair": {"text_a": "a", "text_b": "b"},
    "/models/rerank/rerank": {"query": "a", "texts": ["b", "c"], "return_text": True},
    "/models/rerank/v1/rerank": {"query": "a", "documents": ["b", {"text": "c"}], "top_n": 1},
}
QUESTIONS: dict[str, Any] = {
    "api/trace": {"text": "a [MASK] b", "pair": None},
    "api/why": {"text": "a [MASK]", "method": "rollout", "target": None},
    "api/compare": {"text": "a", "other_text": "b", "pair": None, "other_pair": "c"},
    "api/gradients": {"text": "a [MASK]", "pair": None, "target": "b"},
    "api/pretrain": {
        **{"text": "a b c.\nd e.", "select_prob": 0.15, "mask_prob": 0.8, "random_prob": 0.1},
        **{"whole_words": False, "max_length": 48, "seed": 0, "epoch": 0, "example": 0},
    },
    "api/decode": {"text": "a b", "target": "c", "place": 0, "forced": 5, "beam_size": 2},
    "api/lab": {"name": "waves", "settings": {"num_features": 8, "distance": 3}},
    "api/data": {},
    "api/health": {},
    "api/run/moves": {"before": "best", "after": "last"},
    "api/run/examples": {"saved": "best"},
    "api/run/show": {"saved": "best"},
}
QUERIES = {
    "trace/{key}/tensor": ("name", "slice"),
    "trace/{key}/rows": ("token", "side"),
    "trace/{key}/heads": ("size",),
    "trace/{key}/cell": ("name", "index"),
    "trace/{key}/weight": ("name",),
    "trace/{key}/slope": ("name",),
    "trace/{key}/share": ("language",),
    "trace/{key}/words": (),
    "vocabulary": (),
    "vocabulary/map": (),
    "vocabulary/near": ("id",),
    "params": ("hidden_size", "num_hidden_layers", "vocab_size", "length", "source"),
    "meta": (),
    "experiments": (),
}
NAMES = [
    "enc.0.attn.probs",
    "enc.0.attn.q",
    "emb.out",
    "head.mlm.logits",
    "grad.emb.out",
    "0,2",
    "-1,:",
    "en",
]
TOKEN = "token"


def bodies(examples: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """Draw an address and a body for it: the address, a line feed, the body."""
    return st.sampled_from(sorted(examples)).flatmap(
        lambda path: json_cases(examples[path]).map(lambda body: path.encode() + b"\n" + body)
    )


def queries() -> st.SearchStrategy[bytes]:
    """Draw an address of the page, with a query; {key} is its trace."""
    texts = [value if isinstance(value, str) else json.dumps(value) for value in HOSTILE]
    values = st.sampled_from([quote(text.encode("utf-8", "replace")) for text in (*NAMES, *texts)])

    def address(kind: str) -> st.SearchStrategy[bytes]:
        parts = st.tuples(*(values for _ in QUERIES[kind]))
        return parts.map(
            lambda given: "&".join(
                [f"{kind}?", *(f"{name}={value}" for name, value in zip(QUERIES[kind], given, strict=True))]
            ).encode()
        )

    return st.sampled_from(sorted(QUERIES)).flatmap(address)


@cache
def server() -> Client:
    """Return a server of small models of all tasks."""
    folders = write_all(Path(mkdtemp(prefix="fuzz-served-")))
    settings = ServeSettings(threads=1, timeout=60, max_wait=60)
    front = Front(folders, settings, log=Log(io.StringIO()))
    front.start()
    return Client(front)


@cache
def page() -> tuple[Client, str]:
    """Return the page of a small model, and the key of a trace."""
    folder = write_small("fill", Path(mkdtemp(prefix="fuzz-page-")))
    client = Client(in_shell(Page(Workbench(folder), token=TOKEN), Log(io.StringIO())))
    return client, str(client.post(f"/{TOKEN}/api/trace", {"text": "a [MASK]"}).json()["id"])


def check(client: Client, method: str, path: str, body: bytes | None) -> None:
    """Send a request; an answer that blames the server is a finding."""
    response = client.send(method, path, body)
    assert 200 <= response.status < 500, (path, response.status, response.body[:300])
    if response.headers.get("content-type", "").startswith("application/json"):
        json.loads(response.body, parse_constant=lambda name: 1 / 0)


def ask_server(data: bytes, _: Path) -> None:
    """Post a body to the server."""
    path, _, body = data.partition(b"\n")
    check(server(), "POST", path.decode("utf-8", "replace"), body)


def ask_page(data: bytes, _: Path) -> None:
    """Post a body to the page."""
    path, _, body = data.partition(b"\n")
    check(page()[0], "POST", f"/{TOKEN}/{path.decode('utf-8', 'replace')}", body)


def query_page(data: bytes, _: Path) -> None:
    """Ask the page about its trace."""
    client, key = page()
    path = data.decode("utf-8", "replace").replace("{key}", key)
    check(client, "GET", f"/{TOKEN}/api/{path}", None)
