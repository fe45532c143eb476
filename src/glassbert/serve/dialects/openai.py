"""Embeddings and the list of models as OpenAI's clients ask for them."""

import time
from typing import Any, Literal

from msgspec import Struct

from glassbert.serve.call import Call, Reply, json_reply
from glassbert.serve.dialects.answers import base64_of, check_dimensions, shaped, texts_of
from glassbert.serve.dialects.types import TextsOrIds
from glassbert.serve.http.problems import OPENAI
from glassbert.serve.routes import Route

_STARTED_AT = int(time.time())


class EmbeddingsRequest(Struct):
    input: TextsOrIds
    model: str | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    user: str | None = None


class Embedding(Struct):
    object: str
    index: int
    embedding: list[float] | str


class Embeddings(Struct):
    object: str
    data: list[Embedding]
    model: str
    usage: dict[str, int]


class ModelCard(Struct):
    id: str
    object: str
    created: int
    owned_by: str


class ModelList(Struct):
    object: str
    data: list[ModelCard]


async def embeddings(call: Call, asked: EmbeddingsRequest) -> Reply:
    call.choose(asked.model)
    check_dimensions(call, asked.dimensions)
    rows = await call.embed(texts_of(asked.input, "input"), field="input")
    vectors: Any = shaped(rows, normalize=True, dimensions=asked.dimensions)
    if asked.encoding_format == "base64":
        vectors = base64_of(vectors)
    data = [{"object": "embedding", "index": index, "embedding": one} for index, one in enumerate(vectors)]
    tokens = call.record.numbers["tokens"]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json_reply({"object": "list", "data": data, "model": call.served.name, "usage": usage})


async def models(call: Call, asked: None) -> Reply:
    cards = [
        {"id": name, "object": "model", "created": _STARTED_AT, "owned_by": "glassbert"}
        for name in call.service.models
    ]
    return json_reply({"object": "list", "data": cards})


ROUTES = [
    *(
        Route(
            "POST",
            path,
            OPENAI,
            embeddings,
            Embeddings,
            EmbeddingsRequest,
            "The vector of each text (OpenAI)",
        )
        for path in ("/v1/embeddings", "/embeddings")
    ),
    Route("GET", "/v1/models", OPENAI, models, ModelList, summary="The served models", is_inference=False),
]
