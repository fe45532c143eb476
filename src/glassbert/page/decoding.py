"""The decoder on the page: a target all at once beside one token at a time, and a beam search as a tree.

Teacher forcing feeds the whole target, decoding only what it wrote itself. Where both have read the same
tokens so far, the look-ahead mask must make them say the same.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from glassbert.errors import UserError
from glassbert.inference.decode import BeamStep, DecodeSettings
from glassbert.inference.model import Model
from glassbert.inference.translator import Translator
from glassbert.model.layout import Batch
from glassbert.model.seq2seq import SequenceToSequence
from glassbert.page import scripts
from glassbert.page.answer import TOP, probabilities
from glassbert.page.limits import Whole, check_texts
from glassbert.sentence import Sentence

TOLERANCE = 1e-4
"""Largest difference of logits that rounding in float32 explains."""
MAX_BEAM = 8
# A forced token may lead a model astray; what it writes then is shown up to this many tokens.
_SPARE = 10

Floats = NDArray[np.float32]


class DecodeRequest(msgspec.Struct):
    """A text to translate, and what to force."""

    text: str
    target: str | None = None
    """The translation that teacher forcing feeds; the model's own when None."""
    place: Whole | None = None
    """Where to force a token, counted in what is written."""
    forced: Whole | None = None
    """The id to force there."""
    beam_size: Whole = 4


def decode_for_page(model: Model | Translator, source: str, asked: DecodeRequest) -> dict[str, Any]:
    """Return both ways of running the decoder, row by row, and the search for the best translation."""
    if isinstance(model, Model):
        raise UserError("this model has no decoder; open a folder that `glassbert train translate` wrote")
    check_texts(asked.text, asked.target or None)
    if not 1 <= asked.beam_size <= MAX_BEAM:
        raise UserError(f"beam_size={asked.beam_size}; expected from 1 to {MAX_BEAM}")
    ids = model.tokenize([asked.text])[0].ids
    written = _reference(model, ids, asked.target)
    forced = _forced(model, asked, len(written))
    start = model.network.config.decoder_start_token_id
    fed = [start, *written[:-1]]
    if forced and forced[0] + 1 < len(fed):
        fed[forced[0] + 1] = forced[1]
    at_once = _at_once(model, ids, fed)
    own, in_steps = _in_steps(model, ids, forced, max(len(fed), 2 * len(ids) + _SPARE))
    rows = _rows(model, (fed, written, at_once), (own, in_steps))
    for row in rows:
        row["python"] = scripts.of_decoder_row(source, ids, row.pop("prefix"), row["wanted"])
    differences = [row["difference"] for row in rows if row["difference"] is not None]
    return {
        "source": model.tokenizer.shown(ids),
        "rows": rows,
        "largest": max(differences),
        "tolerance": TOLERANCE,
        "teacher_loss": float(sum(row["forcing"]["loss"] for row in rows if row["forcing"])),
        "forced": None if forced is None else forced[0],
        "own_text": model.tokenizer.decode(own[1:]),
        "beam": {
            **_beam(model, ids, asked.beam_size),
            "python": scripts.of_search(source, asked.text, asked.beam_size),
        },
    }


def _reference(model: Translator, ids: list[int], target: str | None) -> list[int]:
    """Return the ids of a translation with its end: a given one, or the model's greedy one."""
    end = model.tokenizer.end_id
    if target is None or not target.strip():
        (found,) = model.decoder.decode([ids], model.usual_settings(method="greedy"))
        return [*found[0].ids, end] if found[0].is_finished else list(found[0].ids)
    written = [*model.tokenizer.ids_of(target), end]
    if len(written) > model.max_length:
        raise UserError(
            Sentence(
                "the target has {count} tokens with its end, but the model reads {limit}; shorten it",
                count=len(written),
                limit=model.max_length,
            )
        )
    return written


def _forced(model: Translator, asked: DecodeRequest, length: int) -> tuple[int, int] | None:
    if asked.place is None or asked.forced is None:
        return None
    if not 0 <= asked.place < length:
        raise UserError(f"place={asked.place}; expected from 0 to {length - 1}")
    if not 0 <= asked.forced < len(model.tokenizer):
        raise UserError(f"forced={asked.forced}; the vocabulary has ids from 0 to {len(model.tokenizer) - 1}")
    return asked.place, asked.forced


@torch.inference_mode()
def _at_once(model: Translator, ids: list[int], fed: list[int]) -> Floats:
    """Return the logits behind each token of the target from one pass, (T, V)."""
    network = model.network
    hidden = network(Batch.from_lists([ids]), Batch.from_lists([fed]))
    return network.output(hidden).float().numpy()


@torch.inference_mode()
def _in_steps(
    model: Translator, ids: list[int], forced: tuple[int, int] | None, most: int
) -> tuple[list[int], Floats]:
    """Return what the decoder reads when it follows itself, from the start on, and its logits, (T, V)."""
    network: SequenceToSequence = model.network
    config = network.config
    state = network.start(Batch.from_lists([ids]))
    read, rows = [config.decoder_start_token_id], []
    while True:
        logits = network.output(network.step(state, torch.tensor([[read[-1]]]))).float()[0]
        rows.append(logits.numpy().copy())
        place = len(rows) - 1
        logits[config.decoder_start_token_id] = -torch.inf  # decoding never writes it
        chosen = forced[1] if forced and forced[0] == place else int(logits.argmax())
        if chosen == config.eos_token_id or len(rows) == min(most, config.max_length):
            return [*read, chosen], np.stack(rows)
        read.append(chosen)


def _rows(
    model: Translator,
    forcing: tuple[list[int], list[int], Floats],
    inference: tuple[list[int], Floats],
) -> list[dict[str, Any]]:
    fed, labels, at_once = forcing
    own, in_steps = inference
    found = []
    for place in range(max(len(fed), len(in_steps))):
        is_fed, is_written = place < len(fed), place < len(in_steps)
        agrees = is_fed and is_written and fed[: place + 1] == own[: place + 1]
        difference = float(np.abs(at_once[place] - in_steps[place]).max()) if agrees else None
        teacher = _side(model, fed[place], labels[place], at_once[place]) if is_fed else None
        student = _side(model, own[place], own[place + 1], in_steps[place]) if is_written else None
        found.append(
            {
                "forcing": teacher,
                "inference": student,
                "difference": difference,
                "prefix": (own if is_written else fed)[: place + 1],
                "wanted": (student or teacher or {})["id"],
            }
        )
    return found


def _side(model: Translator, read: int, wanted: int, logits: Floats) -> dict[str, Any]:
    """Return one row: the token that was read, and what the decoder says next."""
    of_pieces = probabilities(logits)
    best = np.argsort(-of_pieces, kind="stable")[:TOP].tolist()
    shown = model.tokenizer.shown
    return {
        "read": shown([read])[0],
        "wanted": shown([wanted])[0],
        "id": wanted,
        "probability": float(of_pieces[wanted]),
        "loss": float(-np.log(of_pieces[wanted])),
        "best": [{"id": one, "token": shown([one])[0], "score": float(of_pieces[one])} for one in best],
    }


def _beam(model: Translator, ids: Sequence[int], beam_size: int) -> dict[str, Any]:
    """Return the nodes of the search, step by step, and the translations that it found."""
    settings: DecodeSettings = model.usual_settings(beam_size=beam_size, num_hypotheses=beam_size)
    found, steps = model.decoder.watch(ids, settings)
    return {
        "steps": [_nodes(model, step) for step in steps],
        "found": [
            {
                "text": model.tokenizer.decode(one.ids),
                "ids": one.ids,
                "score": one.score,
                "log_prob": one.log_prob,
                "is_finished": one.is_finished,
            }
            for one in found[:beam_size]
        ],
    }


def _nodes(model: Translator, step: BeamStep) -> list[dict[str, Any]]:
    """Return the candidates that went on or ended, and the rest as dropped."""
    places = {rank: place for place, rank in enumerate(step.kept)}
    shown = model.tokenizer.shown
    return [
        {
            "token": shown([id_])[0],
            "id": id_,
            "parent": parent,
            "log_prob": log_prob,
            "place": places.get(rank),
            "is_end": rank in step.ended,
        }
        for rank, (id_, parent, log_prob) in enumerate(
            zip(step.ids, step.parents, step.log_probs, strict=True)
        )
        if log_prob > -np.inf
    ]
