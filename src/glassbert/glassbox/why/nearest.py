"""What lies nearest: the tokens around a vector, and the rows of a file around a text.

Legend: V pieces, D hidden size, T tokens of a batch.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from glassbert.arguments import checked
from glassbert.data.examples import Example, ReadOptions
from glassbert.data.rows.read import read_examples
from glassbert.errors import ModelError, UserError
from glassbert.glassbox.why.explanation import Part
from glassbert.glassbox.why.subject import Subject
from glassbert.heads import HEADS
from glassbert.inference.model import Candidate, Model
from glassbert.inference.predict import schema_for
from glassbert.model.bert import Output
from glassbert.model.layout import Batch
from glassbert.tasks.task import Input
from glassbert.text.files import read_lines
from glassbert.text.vocabulary import is_reserved
from glassbert.typed import shown

LONGEST_NAME = 200


@checked
def nearest_tokens(model: Model, vector: ArrayLike, top: int = 10) -> list[Candidate]:
    """Return the pieces whose token vectors point most in the direction of ``vector``, (D,).

    Specials and free rows are left out; the score is the cosine.
    """
    table = model.network.encoder.embeddings.token.weight.detach().float().cpu().numpy()
    pieces = model.tokenizer.vocabulary.pieces
    ids, cosines = nearest_rows(table[: len(pieces)], pieces, vector, top)
    return [Candidate(pieces[number], score) for number, score in zip(ids, cosines, strict=True)]


def nearest_rows(
    table: NDArray[np.float32], pieces: Sequence[str], vector: ArrayLike, top: int
) -> tuple[list[int], list[float]]:
    """Return the ids of the pieces nearest to ``vector``, (D,), and their cosines; ``table`` is (V, D).

    Specials and free rows are left out.
    """
    try:
        given = torch.as_tensor(np.asarray(vector, dtype=np.float32))
    except (TypeError, ValueError):
        raise UserError(f"vector={shown(vector)}; expected {table.shape[1]} numbers") from None
    if not given.isfinite().all():
        raise UserError("the vector holds NaN or infinity; expected finite numbers")
    if given.shape != table.shape[1:]:
        raise UserError(f"a vector of shape {tuple(given.shape)}; expected ({table.shape[1]},)")
    cosines = torch.nn.functional.cosine_similarity(torch.from_numpy(table), given[None], dim=1)
    cosines[[number for number, piece in enumerate(pieces) if is_reserved(piece)]] = -torch.inf
    best = cosines.topk(min(top, len(pieces)))
    is_found = best.values > -torch.inf
    return best.indices[is_found].tolist(), best.values[is_found].tolist()


def neighbours_of_tokens(model: Model, subject: Subject, top: int) -> list[Part]:
    """Return for each token of the texts the pieces whose vectors are nearest to its own."""
    table, ids = model.network.encoder.embeddings.token.weight.detach(), subject.all_ids
    parts = []
    for token in subject.tokens:
        if token.place is None:
            continue
        own = nearest_tokens(model, table[int(ids[subject.flat(token)[0]])].float().cpu().numpy(), top + 1)
        others = [one for one in own if one.token != token.piece][:top]
        parts.append(
            Part(token.piece, others[0].score if others else 0.0, token.place, candidates=tuple(others))
        )
    return parts


def neighbouring_rows(
    model: Model, subject: Subject, example: Example | None, data: str | Path | None, top: int
) -> tuple[list[Part], list[str]]:
    """Return the rows of a file that the model sees as most alike, by cosine, and notes on the file.

    Args:
        example: The item as an example of the model's task; None for a model without one.
    """
    if data is None:
        raise UserError("method='rows' compares the text with the rows of a file; name it: data=FILE")
    if example is None:
        rows = [line for line in read_lines(data) if line.strip()]
        if not rows:
            raise UserError(f"{data}: no text in it")
        own, others = model.embed(subject.texts[0]), model.embed(rows)
        about = [(line, f"{data}:{number}") for number, line in enumerate(rows, start=1)]
        return _closest(np.asarray(own), np.asarray(others), about, top), []
    options = ReadOptions(kind=model.task.kind)
    table = read_examples(schema_for(model.task, None), Path(data), options)
    vectors = head_vectors(model, [replace(example, where="the text"), *table.examples])  # type: ignore[type-var]
    about = [(" | ".join(row.texts), _row_note(row)) for row in table.examples]
    return _closest(vectors[0], vectors[1:], about, top), table.notes


def head_vectors(model: Model, examples: Sequence[Example]) -> NDArray[np.float32]:
    """Return what the head reads of each example, (examples, D): the pooled vector, or the tokens' mean.

    Of a text in windows, the first counts.
    """
    inputs = [windows[0] for windows in model.task.inputs(examples, with_targets=False)]
    is_pooled = HEADS[model.config.head].needs_pooler

    def read(output: Output, batch: Batch, _: list[Input]) -> torch.Tensor:
        if is_pooled:
            assert output.pooled is not None
            return output.pooled
        return torch.stack([part.mean(dim=0) for part in batch.layout.split(output.hidden)])

    return np.stack(model.engine.map(inputs, read))


def _row_note(row: Example) -> str:
    labels = ", ".join(row.labels)
    return f"{labels} ({row.where})" if labels else row.where


def _closest(
    own: NDArray[np.float32], others: NDArray[np.float32], about: Sequence[tuple[str, str]], top: int
) -> list[Part]:
    norms = np.linalg.norm(others, axis=1) * np.linalg.norm(own)
    if not np.isfinite(norms).all() or not norms.all():
        raise ModelError("a vector of the model is not a number, or zero; run `glassbert doctor` on it")
    cosines = others @ own / norms
    best = np.argsort(-cosines, kind="stable")[:top]
    return [Part(about[row][0][:LONGEST_NAME], float(cosines[row]), note=about[row][1]) for row in best]
