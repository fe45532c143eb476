"""What dialects share: texts or ids in, vectors and scores out."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassbert.serve.call import Call, check_items
from glassbert.serve.http.problems import Problem, empty, invalid
from glassbert.serve.rows import AnyRow
from glassbert.serve.settings import OnLong


def texts_of(inputs: Any, where: str = "inputs") -> list[Any]:
    """Return the texts, or lists of ids, of an embedding request; a bare list of ids is one text."""
    if isinstance(inputs, str):
        return [inputs]
    if not inputs:
        raise empty(f"$.{where}")
    kinds = {type(one) for one in inputs}
    if kinds == {int}:
        return [inputs]
    if len(kinds) > 1:
        raise invalid("expected only texts, only ids, or only lists of ids", f"$.{where}")
    return list(inputs)


def shaped(rows: Sequence[AnyRow], *, normalize: bool, dimensions: int | None) -> NDArray[np.float32]:
    """Return vectors, (texts, features): cut to the first ``dimensions``, then scaled to length 1.

    Args:
        dimensions: Checked before by `check_dimensions`.
    """
    vectors = np.stack([row.value for row in rows])
    vectors = vectors[:, :dimensions]
    if normalize:
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return np.ascontiguousarray(vectors, dtype=np.float32)


def check_dimensions(call: Call, dimensions: int | None, field: str = "dimensions") -> None:
    """Refuse a width that the model does not have before anything is computed."""
    call.need("embed")
    width = call.served.model.embedding_size
    if dimensions is not None and not 1 <= dimensions <= width:
        raise invalid(f"{dimensions}; expected 1 to {width}, the width of the model", f"$.{field}")


def own_task(call: Call, task: str) -> str:
    """Return the model's own task; the question checks whether items fit it, with a better message."""
    return (
        task if task in call.served.tasks else next(t for t in call.served.tasks if t in ("classify", "pair"))
    )


def scores_of(call: Call, row: AnyRow, *, raw: bool = False) -> list[dict[str, Any]]:
    """Return the score of each label, best first."""
    assert row.logits is not None
    labels, scores = call.served.labels, row.logits
    if not raw:
        scores = (
            np.array([row.value.scores[label] for label in labels]) if row.value.scores else sigmoid(scores)
        )
    order = np.argsort(-scores, kind="stable")
    return [{"score": float(scores[index]), "label": labels[index]} for index in order]


def sigmoid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 / (1 + exp(-x)) without overflow."""
    return np.exp(-np.logaddexp(0.0, -values))


async def rank_scores(
    call: Call, query: str, texts: Sequence[str], *, raw: bool, on_long: OnLong | None, name: str = "texts"
) -> list[float]:
    """Return how well each text fits the query."""
    if not query:
        raise empty("$.query")
    if call.served.kind != "reranker":
        message = (
            f"the model {call.served.name!r} does {', '.join(call.served.tasks)}; ranking needs one label"
        )
        raise Problem(call.dialect.wrong_task_status, "Backend", message, code="wrong_task")
    check_items(texts, call.service.settings.max_texts, name)
    items = [(query, text) for text in texts]
    rows = await call.predict(own_task(call, "pair"), items, on_long=on_long, field=name)
    logits = np.array([row.logits[0] for row in rows if row.logits is not None])
    return (logits if raw else sigmoid(logits)).tolist()


def by_type(vectors: NDArray[np.float32], types: list[Any]) -> dict[str, Any]:
    """Return vectors of length 1 in smaller forms: bytes, bits, or base64 of their float32."""
    whole = np.clip(np.rint(vectors * 127), -127, 127).astype(np.int16)
    bits = np.packbits(vectors > 0, axis=1)
    makers = {
        "float": lambda: vectors,
        "int8": lambda: whole.astype(np.int8),
        "uint8": lambda: (whole + 128).astype(np.uint8),
        "ubinary": lambda: bits,
        "binary": lambda: (bits.astype(np.int16) - 128).astype(np.int8),
        "base64": lambda: base64_of(vectors),
    }
    return {name: makers[name]() for name in dict.fromkeys(types)}


def base64_of(vectors: NDArray[np.float32]) -> list[str]:
    """Return each vector as base64 of little-endian float32."""
    return [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
