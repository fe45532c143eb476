"""The routes of text-embeddings-inference: the same requests, answers, errors and headers.

Two things are better on purpose. Scores of a classifier are those that its training calibrated, by sigmoid
where it gives any number of labels. Ids are taken as they are, not decoded and tokenised again.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
import orjson
from msgspec import UNSET, Meta, Struct, UnsetType

from glassbert.errors import UserError
from glassbert.serve.call import Call, Reply, check_items, json_reply
from glassbert.serve.dialects.answers import (
    check_dimensions,
    own_task,
    rank_scores,
    scores_of,
    shaped,
    texts_of,
)
from glassbert.serve.dialects.cohere import RerankDocuments, rerank_documents
from glassbert.serve.dialects.types import Id, Some, Text, TextsOrIds
from glassbert.serve.http.problems import TEI, Problem, empty, invalid
from glassbert.serve.questions import check_characters, prompt_of
from glassbert.serve.routes import Route
from glassbert.serve.settings import OnLong
from glassbert.text.truncate import Keep


class Common(Struct, kw_only=True):
    """What every request of this dialect may have; unknown fields are ignored."""

    truncate: bool | None = None
    truncation_direction: Literal["left", "right", "Left", "Right"] = "right"
    prompt_name: str | None = None

    @property
    def on_long(self) -> OnLong | None:
        return None if self.truncate is None else "truncate" if self.truncate else "error"

    @property
    def keep(self) -> Keep:
        return "tail" if self.truncation_direction.lower() == "left" else "head"

    @property
    def reading(self) -> dict[str, Any]:
        """How texts that become vectors are read."""
        return {"on_long": self.on_long, "keep": self.keep, "prompt_name": self.prompt_name}

    def check_no_prompt(self) -> None:
        """Refuse options that would have no effect."""
        if self.prompt_name is not None:
            raise invalid("prompts are for vectors, not for scores; leave it out", "$.prompt_name")


class EmbedRequest(Common, kw_only=True):
    inputs: TextsOrIds
    normalize: bool = True
    dimensions: int | None = None


class EmbedAllRequest(Common, kw_only=True):
    inputs: TextsOrIds


class PredictRequest(Common, kw_only=True):
    inputs: Text | Some[Text | Some[Text]]
    raw_scores: bool = False


class RerankRequest(Common, kw_only=True):
    query: Text
    texts: Some[Text] | UnsetType = UNSET
    documents: list[Any] | UnsetType = UNSET
    raw_scores: bool = False
    return_text: bool = False
    model: str | None = None
    top_n: Annotated[int, Meta(ge=1)] | None = None
    return_documents: bool | None = None
    max_tokens_per_doc: Annotated[int, Meta(ge=1)] | None = None


class Sentences(Struct):
    source_sentence: Text
    sentences: Some[Text]


class SimilarityRequest(Struct):
    inputs: Sentences
    parameters: Common | None = None


class TokenizeRequest(Struct):
    inputs: Text | Some[Text]
    add_special_tokens: bool = True
    prompt_name: str | None = None


class DecodeRequest(Struct):
    ids: Some[Id | Some[Id]]
    skip_special_tokens: bool = True


class Score(Struct):
    score: float
    label: str


class Rank(Struct):
    index: int
    score: float
    text: str | UnsetType = UNSET


class SimpleToken(Struct):
    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None


class SparseValue(Struct):
    index: int
    value: float


async def embed(call: Call, asked: EmbedRequest) -> Reply:
    check_dimensions(call, asked.dimensions)
    rows = await call.embed(_items(asked), **asked.reading)
    return json_reply(shaped(rows, normalize=asked.normalize, dimensions=asked.dimensions))


async def embed_all(call: Call, asked: EmbedAllRequest) -> Reply:
    rows = await call.embed(_items(asked), **asked.reading, every_token=True)
    return json_reply([row.value for row in rows])


def _items(asked: EmbedRequest | EmbedAllRequest) -> list[Any]:
    items = texts_of(asked.inputs)
    if asked.prompt_name is not None and not isinstance(items[0], str):
        raise invalid("ids are read as they are; send texts to use a prompt", "$.prompt_name")
    return items


async def embed_sparse(call: Call, asked: EmbedAllRequest) -> Reply:
    message = "no model here gives sparse vectors; ask for dense ones at /embed"
    raise Problem(424, "Backend", message, code="wrong_task")


async def predict(call: Call, asked: PredictRequest) -> Reply:
    asked.check_no_prompt()
    call.need("classify", "pair")
    items, is_single = _predict_items(asked.inputs)
    task = "classify" if isinstance(items[0], str) else "pair"
    rows = await call.predict(own_task(call, task), items, on_long=asked.on_long)
    found = [scores_of(call, row, raw=asked.raw_scores) for row in rows]
    return json_reply(found[0] if is_single else found)


def _predict_items(inputs: str | list[Any]) -> tuple[list[Any], bool]:
    """Return the items and whether there is one; ["a", "b"] is a pair, a batch is a list of lists."""
    if isinstance(inputs, str):
        return [inputs], True
    if not inputs:
        raise empty("$.inputs")
    if all(isinstance(one, str) for one in inputs):
        return [_texts(inputs, "$.inputs")], True
    if any(isinstance(one, str) for one in inputs):
        raise invalid("expected only texts, or only lists of texts", "$.inputs")
    return [_texts(one, f"$.inputs[{index}]") for index, one in enumerate(inputs)], False


def _texts(texts: list[str], where: str) -> str | tuple[str, ...]:
    if len(texts) not in (1, 2):
        raise invalid(f"expected one text or a pair, got {len(texts)} texts", where)
    return texts[0] if len(texts) == 1 else tuple(texts)


async def rerank(call: Call, asked: RerankRequest) -> Reply:
    """Rank texts as this dialect does, or documents as the others do: the key decides."""
    if asked.documents is not UNSET:
        names = RerankDocuments.__struct_fields__
        return await rerank_documents(call, RerankDocuments(**{name: getattr(asked, name) for name in names}))
    if asked.texts is UNSET:
        raise invalid("expected texts, or documents", "$")
    asked.check_no_prompt()
    scores = await rank_scores(call, asked.query, asked.texts, raw=asked.raw_scores, on_long=asked.on_long)
    found = [
        {
            "index": index,
            "score": scores[index],
            **({"text": asked.texts[index]} if asked.return_text else {}),
        }
        for index in sorted(range(len(scores)), key=lambda index: -scores[index])
    ]
    return json_reply(found)


async def similarity(call: Call, asked: SimilarityRequest) -> Reply:
    common = asked.parameters or Common()
    check_items(asked.inputs.sentences, call.service.settings.max_texts - 1, "inputs.sentences")
    texts = [asked.inputs.source_sentence, *asked.inputs.sentences]
    rows = await call.embed(texts, **common.reading)
    vectors = shaped(rows, normalize=True, dimensions=None)
    return json_reply(vectors[1:] @ vectors[0])


async def tokenize(call: Call, asked: TokenizeRequest) -> Reply:
    texts = [asked.inputs] if isinstance(asked.inputs, str) else asked.inputs
    check_items(texts, call.service.settings.max_texts, "inputs")
    prompt = "" if call.served.kind == "translator" else prompt_of(call.served, asked.prompt_name)
    for index, text in enumerate(texts):
        check_characters(text, call.service.settings.max_characters, f"$.inputs[{index}]")

    def work(some: Sequence[str], first: int) -> list[orjson.Fragment]:
        found = [_tokens(call, prompt + text, asked.add_special_tokens) for text in some]
        return [orjson.Fragment(orjson.dumps(tokens)) for tokens in found]  # there, not on the event loop

    return json_reply(await call.service.in_slices(work, texts))


def _tokens(call: Call, text: str, with_specials: bool) -> list[dict[str, Any]]:
    """Return the pieces of a text; start and stop count bytes of UTF-8."""
    if call.served.kind == "translator":
        subwords = call.served.translator.tokenizer
        ids, shown = subwords.ids_of_batch([text])[0], subwords.shown
        return [
            {"id": id_, "text": shown([id_])[0], "special": False, "start": None, "stop": None} for id_ in ids
        ]
    tokenizer = call.served.model.tokenizer
    found = tokenizer.pieces_of(text, parse_specials=True)
    vocabulary = tokenizer.vocabulary
    in_bytes = np.cumsum([0, *(len(character.encode("utf-8", "surrogatepass")) for character in text)])
    tokens = [
        {
            "id": id_,
            "text": vocabulary.pieces[id_],
            "special": id_ in vocabulary.special_ids,
            "start": int(in_bytes[start]),
            "stop": int(in_bytes[stop]),
        }
        for id_, (start, stop) in zip(found.ids, found.offsets, strict=True)
    ]
    if not with_specials:
        return tokens
    special = [
        {"id": id_, "text": vocabulary.pieces[id_], "special": True, "start": None, "stop": None}
        for id_ in (vocabulary.cls_id, vocabulary.sep_id)
    ]
    return [special[0], *tokens, special[1]]


async def decode(call: Call, asked: DecodeRequest) -> Reply:
    lists = texts_of(asked.ids, "ids")
    check_items(lists, call.service.settings.max_texts, "ids")
    tokenizer: Any = call.served.loaded.tokenizer

    skip = {"skip_specials": asked.skip_special_tokens} if call.served.kind != "translator" else {}

    def decoded(some: Sequence[list[int]], first: int) -> list[str]:
        found = []
        for index, ids in enumerate(some, first):
            try:
                found.append(tokenizer.decode(ids, **skip))
            except (UserError, IndexError, OverflowError):
                message = f"an id is not in the vocabulary of {len(tokenizer)} pieces"
                raise invalid(message, f"$.ids[{index}]", kind="Tokenizer") from None
        return found

    return json_reply(await call.service.in_slices(decoded, lists))


Vectors = list[list[float]]
ROUTES = [
    Route("POST", "/embed", TEI, embed, Vectors, EmbedRequest, "The vector of each text"),
    Route("POST", "/embed_all", TEI, embed_all, list[Vectors], EmbedAllRequest, "The vectors of all tokens"),
    Route(
        "POST",
        "/embed_sparse",
        TEI,
        embed_sparse,
        list[list[SparseValue]],
        EmbedAllRequest,
        "Not offered: 424",
    ),
    Route(
        "POST",
        "/predict",
        TEI,
        predict,
        list[Score | list[Score]],
        PredictRequest,
        "The score of each label: a list for one input, a list of lists for a batch",
    ),
    Route(
        "POST",
        "/rerank",
        TEI,
        rerank,
        list[Rank] | dict[str, Any],
        RerankRequest,
        "Texts by how well they fit",
    ),
    Route(
        "POST", "/similarity", TEI, similarity, list[float], SimilarityRequest, "Cosines with one sentence"
    ),
    Route(
        "POST",
        "/tokenize",
        TEI,
        tokenize,
        list[list[SimpleToken]],
        TokenizeRequest,
        "The pieces of each text, with offsets in bytes of UTF-8",
        is_inference=False,
    ),
    Route("POST", "/decode", TEI, decode, list[str], DecodeRequest, "The text of ids", is_inference=False),
]
