"""Embeddings and ranking as Cohere's and Jina's clients ask for them, and the classification of infinity."""

import time
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType
from numpy.typing import NDArray

from glassbert.serve.call import Call, Reply, check_items, json_reply
from glassbert.serve.dialects.answers import by_type, check_dimensions, rank_scores, scores_of, shaped
from glassbert.serve.dialects.types import Some, Text
from glassbert.serve.http.problems import COHERE, invalid
from glassbert.serve.routes import Route
from glassbert.serve.settings import OnLong
from glassbert.serve.shorten import beginning
from glassbert.text.truncate import Keep

_PROMPTS = {"search_query": ("query",), "search_document": ("document", "passage", "corpus")}
"""The usual names of the prompts for an input_type."""
EmbeddingType = Literal["float", "int8", "uint8", "binary", "ubinary", "base64"]


class EmbedTexts(Struct):
    texts: Some[Text]
    model: str | None = None
    input_type: str | None = None
    embedding_types: list[EmbeddingType] | None = None
    output_dimension: int | None = None
    truncate: Literal["NONE", "START", "END"] | None = None


class RerankDocuments(Struct):
    query: Text
    documents: Some[Any]
    model: str | None = None
    top_n: Annotated[int, Meta(ge=1)] | None = None
    return_documents: bool | None = None
    max_tokens_per_doc: Annotated[int, Meta(ge=1)] | None = None


class ClassifyInput(Struct):
    input: Text | Some[Text]
    model: str | None = None
    raw_scores: bool = False


class Ranked(Struct):
    index: int
    relevance_score: float
    document: dict[str, Any] | UnsetType = UNSET


class Ranking(Struct):
    id: str
    results: list[Ranked]
    model: str
    usage: dict[str, int]
    meta: dict[str, Any]


class Embedded(Struct):
    id: str
    embeddings: Any
    texts: list[str]
    meta: dict[str, Any]
    response_type: str


class Classified(Struct):
    object: str
    data: list[list[dict[str, Any]]]
    model: str
    usage: dict[str, int]
    id: str
    created: int


def _truncation(truncate: str | None) -> tuple[OnLong | None, Keep]:
    kept: Keep = "tail" if truncate == "START" else "head"
    return (None if truncate is None else "error" if truncate == "NONE" else "truncate"), kept


async def _embedded(
    call: Call, asked: EmbedTexts, version: str
) -> tuple[NDArray[np.float32], dict[str, Any]]:
    call.choose(asked.model)
    check_dimensions(call, asked.output_dimension, "output_dimension")
    on_long, keep = _truncation(asked.truncate)
    prompt_name = _prompt_name(call, asked.input_type)
    rows = await call.embed(asked.texts, on_long=on_long, keep=keep, prompt_name=prompt_name, field="texts")
    vectors = shaped(rows, normalize=True, dimensions=asked.output_dimension)
    return vectors, {"id": call.record.id, "texts": asked.texts, "meta": _meta(call, version)}


def _prompt_name(call: Call, input_type: str | None) -> str | None:
    """Return the model's prompt for a kind of text; None, the default, if it has none for it."""
    sentences = call.served.model.sentences
    prompts = sentences.prompts if sentences else {}
    return next((name for name in _PROMPTS.get(input_type or "", ()) if name in prompts), None)


def _meta(call: Call, version: str) -> dict[str, Any]:
    units = {"input_tokens": call.record.numbers["tokens"]}
    return {"api_version": {"version": version}, "billed_units": units}


async def embed_v1(call: Call, asked: EmbedTexts) -> Reply:
    vectors, rest = await _embedded(call, asked, "1")
    if asked.embedding_types:
        found: Any = by_type(vectors, asked.embedding_types)
        return json_reply({**rest, "embeddings": found, "response_type": "embeddings_by_type"})
    return json_reply({**rest, "embeddings": vectors, "response_type": "embeddings_floats"})


async def embed_v2(call: Call, asked: EmbedTexts) -> Reply:
    vectors, rest = await _embedded(call, asked, "2")
    found = by_type(vectors, asked.embedding_types or ["float"])
    return json_reply({**rest, "embeddings": found, "response_type": "embeddings_by_type"})


async def rerank_v1(call: Call, asked: RerankDocuments) -> Reply:
    return await rerank_documents(call, asked, "1")


async def rerank_documents(call: Call, asked: RerankDocuments, version: str = "2") -> Reply:
    call.choose(asked.model)
    texts = [_document(one, index) for index, one in enumerate(asked.documents)]
    read = await _beginnings(call, texts, asked.max_tokens_per_doc)
    scores = await rank_scores(call, asked.query, read, raw=False, on_long=None, name="documents")
    order = sorted(range(len(scores)), key=lambda index: -scores[index])[: asked.top_n]
    shown = {index: {"document": {"text": texts[index]}} if asked.return_documents else {} for index in order}
    results = [{"index": index, "relevance_score": scores[index], **shown[index]} for index in order]
    tokens = call.record.numbers["tokens"]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    rest = {"id": call.record.id, "model": call.served.name, "usage": usage}
    return json_reply({**rest, "results": results, "meta": _meta(call, version)})


async def _beginnings(call: Call, texts: list[str], max_tokens: int | None) -> list[str]:
    """Return as much of each text as may be read."""
    if max_tokens is None or call.served.kind != "reranker":
        return texts
    check_items(texts, call.service.settings.max_texts, "documents")
    tokenizer = call.served.model.tokenizer
    return await call.service.in_slices(
        lambda some, first: [beginning(text, max_tokens, tokenizer) for text in some], texts
    )


def _document(one: Any, index: int) -> str:
    text = one.get("text") if isinstance(one, dict) else one
    if not isinstance(text, str):
        raise invalid("expected a text, or an object with text", f"$.documents[{index}]")
    return text


async def classify(call: Call, asked: ClassifyInput) -> Reply:
    call.choose(asked.model)
    texts = [asked.input] if isinstance(asked.input, str) else asked.input
    check_items(texts, call.service.settings.max_texts, "input")
    rows = await call.predict("classify", texts, field="input")
    tokens = call.record.numbers["tokens"]
    return json_reply(
        {
            "object": "classify",
            "data": [scores_of(call, row, raw=asked.raw_scores) for row in rows],
            "model": call.served.name,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            "id": call.record.id,
            "created": int(time.time()),
        }
    )


ROUTES = [
    Route("POST", "/v1/embed", COHERE, embed_v1, Embedded, EmbedTexts, "The vector of each text (Cohere v1)"),
    Route("POST", "/v2/embed", COHERE, embed_v2, Embedded, EmbedTexts, "The vector of each text (Cohere v2)"),
    Route(
        "POST",
        "/v1/rerank",
        COHERE,
        rerank_v1,
        Ranking,
        RerankDocuments,
        "Documents by how well they fit",
    ),
    Route(
        "POST",
        "/v2/rerank",
        COHERE,
        rerank_documents,
        Ranking,
        RerankDocuments,
        "Documents by how well they fit",
    ),
    Route(
        "POST", "/classify", COHERE, classify, Classified, ClassifyInput, "The score of each label (infinity)"
    ),
]
