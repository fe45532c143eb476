"""Servers that `serve.py` compares with; they run in an environment of their own, and import nothing of ours.

    python serve_peers.py st|tei FOLDER PORT
    python serve_peers.py export FOLDER MODEL.onnx

st: sentence-transformers behind FastAPI, as in most tutorials: a plain `def`, one call per request.
tei: what text-embeddings-inference does on a CPU, in Python: onnxruntime, permits, a queue in the order of
arrival, batches of up to 16,384 padded tokens, the next one formed while one runs.
"""

import asyncio
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

MAX_LENGTH = 256
MAX_BATCH_TOKENS = 16_384
MAX_PERMITS = 512


def run_sentence_transformers(folder: str, port: int) -> None:
    import uvicorn
    from fastapi import Body, FastAPI
    from sentence_transformers import SentenceTransformer

    model, app = SentenceTransformer(folder, device="cpu"), FastAPI()
    model.max_seq_length = MAX_LENGTH

    @app.post("/embed")
    def embed(inputs: Any = Body(embed=True)) -> Any:  # noqa: B008
        texts = [inputs] if isinstance(inputs, str) else inputs
        return model.encode(texts, normalize_embeddings=True, show_progress_bar=False).tolist()

    @app.get("/health")
    def health() -> dict[str, bool]:
        return {"ready": True}

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="critical")


class TeiLike:
    """Permits, a queue, and a batch that is formed while another one runs."""

    def __init__(self, folder: str) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = os.cpu_count() or 1
        self.session = onnxruntime.InferenceSession(
            f"{folder}/peer.onnx", options, providers=["CPUExecutionProvider"]
        )
        self.tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MAX_LENGTH)
        self.num_permits = MAX_PERMITS
        self.waiting: list[tuple[list[int], asyncio.Future[Any]]] = []
        self.tokenisers = ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1))
        self.compute = ThreadPoolExecutor(1)

    async def embed(self, texts: list[str]) -> list[Any] | None:
        """Return the vectors of texts; None if there are too many at once."""
        if self.num_permits < len(texts):
            return None
        self.num_permits -= len(texts)
        try:
            loop = asyncio.get_running_loop()
            encoded = await loop.run_in_executor(self.tokenisers, self.tokenizer.encode_batch_fast, texts)
            futures = [loop.create_future() for _ in texts]
            self.waiting += [(one.ids, future) for one, future in zip(encoded, futures, strict=True)]
            self.has_work.set()
            return await asyncio.gather(*futures)
        finally:
            self.num_permits += len(texts)

    async def work(self) -> None:
        """Form batches and run them, always one ahead."""
        self.has_work, loop = asyncio.Event(), asyncio.get_running_loop()
        running: asyncio.Future[None] | None = None
        while True:
            await self.has_work.wait()
            if batch := self._next_batch():
                job = loop.run_in_executor(self.compute, self._run, [ids for ids, _ in batch])
                if running:
                    await running
                running = asyncio.ensure_future(self._deliver(batch, job))
            else:
                self.has_work.clear()

    def _next_batch(self) -> list[tuple[list[int], "asyncio.Future[Any]"]]:
        longest, size = 0, 0
        for ids, _ in self.waiting:
            longest = max(longest, len(ids))
            if (size + 1) * longest > MAX_BATCH_TOKENS:
                break
            size += 1
        batch, self.waiting = self.waiting[:size], self.waiting[size:]
        return batch

    async def _deliver(self, batch: list[Any], job: Any) -> None:
        for (_, future), vector in zip(batch, await job, strict=True):
            if not future.done():
                future.set_result(vector)

    def _run(self, rows: list[list[int]]) -> Any:
        import numpy as np

        width = max(map(len, rows))
        ids = np.zeros((len(rows), width), dtype=np.int64)
        mask = np.zeros((len(rows), width), dtype=np.int64)
        for index, row in enumerate(rows):
            ids[index, : len(row)], mask[index, : len(row)] = row, 1
        (hidden,) = self.session.run(None, {"input_ids": ids, "attention_mask": mask})
        pooled = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)


def run_tei_like(folder: str, port: int) -> None:
    import orjson
    import uvicorn

    server = TeiLike(folder)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            asyncio.ensure_future(server.work())
            await send({"type": "lifespan.startup.complete"})
            await receive()
            return
        body, has_more = b"", scope["method"] == "POST"
        while has_more:
            message = await receive()
            body, has_more = body + message.get("body", b""), message.get("more_body", False)
        found: list[Any] | None = []
        if body:
            inputs = orjson.loads(body)["inputs"]
            found = await server.embed([inputs] if isinstance(inputs, str) else inputs)
        content = orjson.dumps(found, option=orjson.OPT_SERIALIZE_NUMPY)
        headers = [(b"content-length", str(len(content)).encode())]
        status = 429 if found is None else 200
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="critical")


def export(folder: str, path: str) -> None:
    """Write the encoder as ONNX."""
    import torch
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

    class LastHidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    example = (torch.ones(2, 8, dtype=torch.long), torch.ones(2, 8, dtype=torch.long))
    names = ["input_ids", "attention_mask"]
    axes = {name: {0: "texts", 1: "tokens"} for name in (*names, "hidden")}
    torch.onnx.export(
        LastHidden(),
        example,
        path,
        input_names=names,
        output_names=["hidden"],
        dynamic_axes=axes,
        dynamo=False,
    )


if __name__ == "__main__":
    kind, folder, last = sys.argv[1:]
    if kind == "export":
        export(folder, last)
    else:
        {"st": run_sentence_transformers, "tei": run_tei_like}[kind](folder, int(last))
