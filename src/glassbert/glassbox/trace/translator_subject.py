"""A translator's pass: the source, and a target that is given or that the model writes itself."""

import torch.nn.functional as F
from torch import Tensor

from glassbert.errors import UserError
from glassbert.glassbox.trace.networks import translator_graph
from glassbert.glassbox.trace.subject import (
    LOSS,
    Number,
    Reading,
    Subject,
    Weights,
    chosen_number,
    is_place,
    whole,
)
from glassbert.inference.translator import Translator
from glassbert.model.layout import Batch
from glassbert.model.tap import Tap
from glassbert.sentence import Sentence
from glassbert.text.bpe.tokenizer import SubwordTokenizer


def translator_subject(model: Translator, text: str, target: object) -> Subject:
    """Return the pass of a source with its target.

    Args:
        target: The translation to feed; or a number by its place, in the pass with the model's own
            translation, which is also taken when None.
    """
    (encoding,) = model.tokenize([text])
    tokenizer = model.tokenizer
    if target is None or is_place(target):
        (found,) = model.decoder.decode([encoding.ids], model.usual_settings())
        written = [*found[0].ids, tokenizer.end_id] if found[0].is_finished else list(found[0].ids)
    else:
        written = _given_target(model, target)
    fed, labels = [tokenizer.pad_id, *written[:-1]], whole(written)
    text_written = tokenizer.decode(written)
    source, decoder = Batch.from_lists([encoding.ids]), Batch.from_lists([fed])
    graph = translator_graph(model.config, num_source=len(encoding.ids), num_target=len(fed))

    def run(weights: Weights, tap: Tap) -> None:
        network, device = weights.network, next(weights.parameters()).device
        hidden = network(source.to(device), decoder.to(device), tap=tap)  # (T, D)
        logits = tap("head.logits", network.output(hidden))  # type: ignore[operator]
        tap(LOSS, F.cross_entropy(logits.float(), labels.to(device), reduction="sum"))

    return Subject(
        weights=Weights(model.network),
        graph=graph,
        run=run,
        given={**_given("emb", source), **_given("dec.emb", decoder), "head.labels": labels},
        source=_reading(tokenizer, encoding.ids, text, is_cut=encoding.truncated),
        decoder=_reading(tokenizer, fed, text_written),
        differentiated=chosen_number(target, graph, {"vocabulary": tokenizer.pieces}) or Number(LOSS),
        target=text_written,
    )


def _given_target(model: Translator, target: object) -> list[int]:
    """Return the ids of a translation with its end."""
    if not isinstance(target, str) or not target.strip():
        raise UserError(f"target={target!r}; expected the translation of the text: a str that is not blank")
    ids = [*model.tokenizer.ids_of(target), model.tokenizer.end_id]
    if len(ids) > model.max_length:
        raise UserError(
            Sentence(
                "the target has {count} tokens with its end, but the model reads {limit}; shorten it",
                count=len(ids),
                limit=model.max_length,
            )
        )
    return ids


def _given(scope: str, batch: Batch) -> dict[str, Tensor]:
    return {f"{scope}.ids": batch.ids, f"{scope}.positions": batch.layout.positions}


def _reading(tokenizer: SubwordTokenizer, ids: list[int], text: str, *, is_cut: bool = False) -> Reading:
    return Reading(
        tokens=tuple(tokenizer.shown(ids)),
        ids=tuple(ids),
        segments=(0,) * len(ids),
        offsets=_offsets(tokenizer, ids, text),
        truncated=is_cut,
    )


def _offsets(tokenizer: SubwordTokenizer, ids: list[int], text: str) -> tuple[tuple[int, int], ...]:
    """Return the characters that each piece covers; a byte of a character covers all of it."""
    specials = (tokenizer.pad_id, tokenizer.end_id)
    found, end = [], 0
    for index, id_ in enumerate(ids):
        if id_ in specials:
            found.append((0, 0))
            continue
        written = tokenizer.decode(ids[: index + 1])
        start, end = end, len(written)
        is_part = start > 0 and start == end  # a further byte of the character before
        found.append((start - 1 if is_part else start, min(end, len(text))))
    return tuple(found)
