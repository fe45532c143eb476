"""POST /, /invocations and /vertex: the model's main task, in the dialect that the keys of the body show.

`InferenceClient` of Hugging Face always sends `parameters`, clients of text-embeddings-inference never do.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from glassbert.serve.call import Call, Reply, check_items
from glassbert.serve.dialects import hugging_face, tei
from glassbert.serve.dialects.types import Some
from glassbert.serve.http.body import decode
from glassbert.serve.http.problems import TEI, invalid
from glassbert.serve.routes import Handler, Route


class Body(Struct):
    """The part of a body that shows its dialect."""

    inputs: Raw = Raw()
    parameters: Raw = Raw()
    query: Raw = Raw()
    texts: Raw = Raw()


class Instances(Struct):
    instances: Some[dict[str, Any]]


class Predictions(Struct):
    predictions: list[Any]


_TEI: dict[str, tuple[Handler, Any]] = {
    "embed": (tei.embed, tei.EmbedRequest),
    "predict": (tei.predict, tei.PredictRequest),
    "rerank": (tei.rerank, tei.RerankRequest),
}
_peek = msgspec.json.Decoder(Body)
_decoders = {name: msgspec.json.Decoder(request) for name, (_, request) in _TEI.items()}


async def main(call: Call, body: Raw) -> Reply:
    """Answer as the model's main route in the dialect of the body."""
    seen = decode(bytes(body), _peek)
    first = bytes(seen.inputs).lstrip()[:1]
    if first == b"{" and b"source_sentence" in bytes(seen.inputs):
        return await hugging_face.run_pipeline(call, "sentence-similarity", body)
    task = call.served.tasks[0]
    has_parameters = bool(bytes(seen.parameters))
    if has_parameters or first == b"{" or task in ("tag", "answer", "translate"):
        name = hugging_face.PIPELINE_OF_TASK.get(task)
        if name is None:
            raise invalid(f"the task {task!r} has no pipeline; ask at /tasks/{task}", "$")
        return await hugging_face.run_pipeline(call, name, body)
    if call.served.kind == "reranker":
        name = "rerank" if bytes(seen.query) else "predict"
    else:
        name = "predict" if call.served.kind == "classifier" else "embed"
    return await _TEI[name][0](call, decode(bytes(body), _decoders[name]))


async def vertex(call: Call, asked: Instances) -> Reply:
    """Answer each instance as the main route would."""
    check_items(["x"] * len(asked.instances), call.service.settings.max_texts, "instances")
    found = []
    for instance in asked.instances:
        reply = await main(call, Raw(msgspec.json.encode(instance)))
        assert isinstance(reply.content, bytes)
        found.append(Raw(reply.content))
    return Reply(msgspec.json.encode({"predictions": found}))


VERTEX = Route("POST", "/vertex", TEI, vertex, Predictions, Instances, "Many bodies of POST / (Vertex AI)")
ROUTES = [
    *(
        Route("POST", path, TEI, main, Any, Raw, "What the model is there for, in the dialect of the body")
        for path in ("/", "/invocations")
    ),
    VERTEX,
]
