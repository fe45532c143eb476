"""The Open Inference Protocol (KServe v2, Triton): texts as BYTES; vectors as FP32, other rows as JSON."""

from typing import Annotated, Any

import numpy as np
import orjson
from msgspec import Meta, Struct

from glassbert.serve.call import Call, Reply, json_reply
from glassbert.serve.dialects.answers import shaped
from glassbert.serve.dialects.info import Ready, ready
from glassbert.serve.dialects.native import row_json, searched
from glassbert.serve.dialects.types import Some
from glassbert.serve.http.problems import KSERVE, empty, invalid
from glassbert.serve.questions import Question
from glassbert.serve.routes import Route
from glassbert.version import __version__


class Tensor(Struct):
    name: str
    shape: list[Annotated[int, Meta(ge=0)]]
    datatype: str
    data: list[Any]


class InferRequest(Struct):
    inputs: Some[Tensor]
    id: str | None = None


class InferResponse(Struct):
    model_name: str
    outputs: list[Tensor]
    id: str


class ServerMetadata(Struct):
    name: str
    version: str
    extensions: list[str]


class TensorMetadata(Struct):
    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(Struct):
    name: str
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


_INPUTS = {"pair": ("text_a", "text_b"), "answer": ("question", "context")}


def _input_names(task: str) -> tuple[str, ...]:
    return _INPUTS.get(task, ("text",))


def _flat(values: Any) -> list[Any]:
    return [one for value in values for one in (_flat(value) if isinstance(value, list) else [value])]


def _texts(asked: InferRequest, names: tuple[str, ...]) -> list[Any]:
    """Return the items of a request: one BYTES tensor for each text of an item."""
    if len(asked.inputs) != len(names):
        wanted = " and ".join(names)
        raise invalid(f"{len(asked.inputs)} tensors; expected {len(names)}: {wanted}", "$.inputs")
    by_name = {tensor.name: tensor for tensor in asked.inputs}
    chosen = [by_name.get(name, tensor) for name, tensor in zip(names, asked.inputs, strict=True)]
    columns = []
    for index, tensor in enumerate(chosen):
        where = f"$.inputs[{index}]"
        texts = _flat(tensor.data)
        if tensor.datatype != "BYTES":
            raise invalid("expected BYTES", f"{where}.datatype")
        if not all(isinstance(text, str) for text in texts):
            raise invalid("expected texts", f"{where}.data")
        if np.prod(tensor.shape, dtype=object) != len(texts):
            raise invalid(f"the shape does not fit {len(texts)} texts", f"{where}.shape")
        columns.append(texts)
    if len(names) == 1:
        return columns[0]
    if len(columns[0]) != len(columns[1]):
        raise invalid("expected as many of one as of the other", "$.inputs")
    return list(zip(*columns, strict=True))


async def infer(call: Call, asked: InferRequest) -> Reply:
    task = call.served.tasks[0]
    items = _texts(asked, _input_names(task))
    if not items:
        raise empty("$.inputs")
    rows = await call.rows(task, _question(call, task), items)
    if task == "embed":
        vectors = shaped(rows, normalize=True, dimensions=None)
        output = {"datatype": "FP32", "shape": vectors.shape, "data": vectors.ravel()}
    else:
        lines = [
            orjson.dumps(row_json(task, row), option=orjson.OPT_SERIALIZE_NUMPY).decode() for row in rows
        ]
        output = {"datatype": "BYTES", "shape": [len(lines)], "data": lines}
    outputs = [{"name": task, **output}]
    return json_reply({"model_name": call.served.name, "id": asked.id or call.record.id, "outputs": outputs})


def _question(call: Call, task: str) -> Question:
    if task == "embed":
        return call.embed_question(None)
    if task == "fill":
        return call.fill_question(5)
    if task == "translate":
        return searched(call)
    return call.task_question(task, None)


async def server(call: Call, asked: None) -> Reply:
    return json_reply({"name": "glassbert", "version": __version__, "extensions": []})


async def model(call: Call, asked: None) -> Reply:
    task = call.served.tasks[0]
    inputs = [{"name": name, "datatype": "BYTES", "shape": [-1]} for name in _input_names(task)]
    output: dict[str, Any] = {"datatype": "BYTES", "shape": [-1]}
    if task == "embed":
        output = {"datatype": "FP32", "shape": [-1, call.served.model.embedding_size]}
    found = {"name": call.served.name, "platform": "glassbert", "inputs": inputs}
    return json_reply({**found, "outputs": [{"name": task, **output}]})


_MODEL = "/v2/models/{model}"
ROUTES = [
    Route("GET", "/v2", KSERVE, server, ServerMetadata, summary="What serves here", is_inference=False),
    Route("GET", _MODEL, KSERVE, model, ModelMetadata, summary="What a model takes", is_inference=False),
    Route("GET", f"{_MODEL}/ready", KSERVE, ready, Ready, summary="Is it loaded", is_inference=False),
    Route("POST", f"{_MODEL}/infer", KSERVE, infer, InferResponse, InferRequest, "The model's main task"),
]
