"""Our own verbs: the JSON of the command line, offsets in code points, rows as they arrive."""

import io
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import orjson
from msgspec import UNSET, Meta, Struct, UnsetType

from glassbert.errors import UserError
from glassbert.serve.call import Call, Reply, json_reply
from glassbert.serve.dialects.types import Some, Text
from glassbert.serve.http.problems import NATIVE, Problem, invalid
from glassbert.serve.questions import Question
from glassbert.serve.routes import Handler, Route
from glassbert.serve.rows import AnyRow
from glassbert.serve.settings import OnLong
from glassbert.text.truncate import Keep

Positive = Annotated[int, Meta(ge=1)]


class Item(Struct):
    """A text, a pair, or a question about a context."""

    text: str | UnsetType = UNSET
    text_a: str | UnsetType = UNSET
    text_b: str | UnsetType = UNSET
    question: str | UnsetType = UNSET
    context: str | UnsetType = UNSET


class Asked(Struct):
    """What every request of this dialect has."""

    inputs: Text | Item | Some[Text | Item | Some[Text]]
    model: str | None = None
    on_long: OnLong | None = None


class EmbedAsked(Asked):
    keep: Keep = "head"
    prompt_name: str | None = None


class FillAsked(Asked):
    top: Annotated[int, Meta(ge=1, le=1000)] = 5


class TranslateAsked(Asked):
    method: Literal["greedy", "beam", "sample"] = "beam"
    beam_size: Annotated[int, Meta(ge=1, le=32)] = 4
    num_hypotheses: Annotated[int, Meta(ge=1, le=32)] = 1
    length_penalty: Annotated[float, Meta(ge=-10, le=10)] = 1.0
    max_length: Positive | None = None
    temperature: Annotated[float, Meta(gt=0, le=100)] = 1.0
    top_k: Positive | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0


class Usage(Struct):
    tokens: int
    truncated: int


class Answered(Struct):
    """A row for each input, as the command line prints it, and what was read."""

    model: str
    data: list[dict[str, Any]]
    usage: Usage


_KEYS = {"pair": ("text_a", "text_b"), "answer": ("question", "context")}


def items_of(inputs: Any, task: str) -> list[Any]:
    """Return the items of a request as Python code gives them to a model."""
    listed = inputs if isinstance(inputs, list) else [inputs]
    return [_item(one, task, f"$.inputs[{index}]") for index, one in enumerate(listed)]


def _item(one: Any, task: str, where: str) -> Any:
    keys = _KEYS.get(task, ("text",))
    expected = f"expected {' and '.join(keys)} for {task}"
    if isinstance(one, Item):
        texts = tuple(getattr(one, key) for key in keys)
        if UNSET in texts:
            raise invalid(expected, where)
    else:
        texts = (one,) if isinstance(one, str) else tuple(one)
    if len(texts) != len(keys):
        raise invalid(f"{expected}, got {len(texts)} texts", where)
    return texts[0] if len(keys) == 1 else texts


def row_json(task: str, row: AnyRow) -> dict[str, Any]:
    """Return a row as the command line prints it."""
    if task == "embed":
        content: dict[str, Any] = {"embedding": row.value}
    elif task == "fill":
        masks = [[{"token": one.token, "score": one.score} for one in mask] for mask in row.value.candidates]
        content = {"masks": masks}
    else:
        content = row.value.to_json()
    return {**content, "tokens": row.tokens, "truncated": row.truncated, "windows": row.windows}


async def answer(call: Call, task: str, question: Question, items: Sequence[Any]) -> Reply:
    """Answer as the Accept header asks: all rows in one object, one row per line, or as events."""
    accepted = call.headers.get("accept", "")
    if "application/x-ndjson" in accepted:
        lines = _stream(call, task, question, items, b"", b"\n")
        return Reply(await _begun(lines), "application/x-ndjson")
    if "text/event-stream" in accepted and task == "translate":
        lines = _stream(call, task, question, items, b"data: ", b"\n\n")
        return Reply(await _begun(lines), "text/event-stream")
    rows = await call.rows(task, question, items)
    if task == "embed" and (binary := _binary(accepted, rows)):
        return binary
    numbers = call.record.numbers
    usage = {"tokens": numbers["tokens"], "truncated": numbers["truncated"]}
    data = [row_json(task, row) for row in rows]
    return json_reply({"model": call.served.name, "data": data, "usage": usage})


async def _stream(
    call: Call, task: str, question: Question, items: Sequence[Any], before: bytes, after: bytes
) -> AsyncIterator[bytes]:
    pending = await call.ask(task, question, items, "inputs", should_stream=True)
    yield b""  # accepted: from here on the status can no longer change
    rows: list[AnyRow] = []
    async for row in pending.stream():
        if row is None:
            content: dict[str, Any] = {
                "error": "the model has no answer for this text",
                "error_type": "Backend",
            }
        else:
            content = row_json(task, row)
            rows.append(row)
        yield before + orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY) + after
    call.note(pending, rows)


async def _begun(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Return ``chunks`` once the request was accepted, so that a refusal still has its own status."""
    await anext(chunks)
    return chunks


def _binary(accepted: str, rows: Sequence[AnyRow]) -> Reply | None:
    """Return vectors as bytes, if the client asks for them: twenty times faster than JSON."""
    if "application/x-npy" in accepted:
        file = io.BytesIO()
        np.save(file, np.stack([row.value for row in rows]))
        return Reply(file.getvalue(), "application/x-npy")
    if "application/vnd.safetensors" in accepted:
        from safetensors.numpy import save

        tensors = {
            "embeddings": np.stack([row.value for row in rows]),
            "tokens": np.array([row.tokens for row in rows]),
            "truncated": np.array([row.truncated for row in rows]),
        }
        return Reply(save(tensors), "application/vnd.safetensors")
    return None


async def embed(call: Call, asked: EmbedAsked) -> Reply:
    call.choose(asked.model)
    question = call.embed_question(asked.on_long, keep=asked.keep, prompt_name=asked.prompt_name)
    return await answer(call, "embed", question, items_of(asked.inputs, "embed"))


async def _own(call: Call, task: str, asked: Asked) -> Reply:
    call.choose(asked.model)
    return await answer(call, task, call.task_question(task, asked.on_long), items_of(asked.inputs, task))


async def classify(call: Call, asked: Asked) -> Reply:
    return await _own(call, "classify", asked)


async def pair(call: Call, asked: Asked) -> Reply:
    return await _own(call, "pair", asked)


async def tag(call: Call, asked: Asked) -> Reply:
    return await _own(call, "tag", asked)


async def answer_question(call: Call, asked: Asked) -> Reply:
    return await _own(call, "answer", asked)


async def fill(call: Call, asked: FillAsked) -> Reply:
    call.choose(asked.model)
    return await answer(call, "fill", call.fill_question(asked.top), items_of(asked.inputs, "fill"))


async def translate(call: Call, asked: TranslateAsked) -> Reply:
    call.choose(asked.model)
    names = (
        "method",
        "beam_size",
        "num_hypotheses",
        "length_penalty",
        "temperature",
        "top_k",
        "top_p",
        "seed",
    )
    changes = {name: getattr(asked, name) for name in names}
    if asked.max_length is not None:
        changes["max_length"] = asked.max_length
    return await answer(call, "translate", searched(call, **changes), items_of(asked.inputs, "translate"))


def searched(call: Call, field: str = "inputs", **changes: Any) -> Question:
    """Return the question for translations that are searched for in this way."""
    try:
        return call.translate_question(field, **changes)
    except Problem:
        raise
    except UserError as error:
        raise invalid(str(error), "$") from None


def _routes() -> list[Route]:
    handlers: dict[str, tuple[Handler, Any, str, tuple[str, ...]]] = {
        "embed": (embed, EmbedAsked, "The vector of each text", ()),
        "classify": (classify, Asked, "The label, the labels or the number of each text", ()),
        "pair": (pair, Asked, "The label or the number of each pair of texts", ()),
        "tag": (tag, Asked, "The labelled spans of each text", ("/tag", "/ner")),
        "answer": (answer_question, Asked, "The answer to each question", ("/answer", "/qa")),
        "fill": (fill, FillAsked, "The likeliest pieces for each mask", ("/fill",)),
        "translate": (translate, TranslateAsked, "The translation of each text", ("/translate",)),
    }
    return [
        Route("POST", path, NATIVE, handler, Answered, request, summary)
        for task, (handler, request, summary, short) in handlers.items()
        for path in (f"/tasks/{task}", *short)
    ]


ROUTES = _routes()
