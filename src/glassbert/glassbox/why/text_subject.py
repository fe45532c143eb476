"""From a text and a model without a task to what is explained: a [MASK], or nothing but the text.

Legend: V variants.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from glassbert.errors import UserError
from glassbert.glassbox.why.explanation import Place, guess
from glassbert.glassbox.why.subject import Subject, log_odds
from glassbert.glassbox.why.task_subject import best_candidates, cut_note
from glassbert.glassbox.why.tokens import Spot, tokens_of
from glassbert.inference.model import Candidate, Model
from glassbert.model.bert import Output
from glassbert.model.layout import Batch
from glassbert.sentence import Sentence
from glassbert.text.wordpiece.tokenizer import Encoding


def subject_of_texts(model: Model, texts: Sequence[str], target: str | None) -> Subject:
    """Return what is explained for a text, or a pair, whose [MASK] the model can fill.

    Args:
        target: The piece to explain, or N=PIECE for the N-th [MASK]; the likeliest when not given.
    """
    encoding = model.tokenize([texts[0]], [texts[1]] if len(texts) > 1 else None)[0]
    mask_id = model.tokenizer.vocabulary.mask_id
    masks = [position for position, id_ in enumerate(encoding.ids) if id_ == mask_id]
    notes = (cut_note(encoding.num_cut),) * encoding.truncated
    if model.network.mlm is None or not masks:
        reason = (
            Sentence(
                "a model with a {head!r} head gives no answer to explain; fine-tune it, or use one with an "
                "MLM head",
                head=model.config.head,
            )
            if model.network.mlm is None
            else Sentence("the text has no [MASK]; write [MASK] where the model is to fill in a word")
        )
        return _subject(model, texts, encoding, (), notes=notes, looks_from=((0,),), why_not=reason)
    number, piece = _parsed(model, target, len(masks))
    place, pieces = masks[number], model.tokenizer.vocabulary.pieces

    def logits(output: Output, num_variants: int) -> Tensor:
        assert output.mlm is not None
        return output.mlm.float()[:, : len(pieces)]  # a model may have more rows than pieces

    choice = _likeliest(model, encoding, place) if piece is None else model.tokenizer.vocabulary.id(piece)

    def read(output: Output, num_variants: int) -> Tensor:
        return log_odds(logits(output, num_variants), choice)

    def candidates(output: Output, num_variants: int) -> list[tuple[Candidate, ...]]:
        return best_candidates(logits(output, num_variants), pieces)

    which = f" {number + 1}" if len(masks) > 1 else ""
    return _subject(
        model,
        texts,
        encoding,
        (mask_id,),
        target=f"[MASK]{which} = {pieces[choice]!r}",
        read=read,
        predict_at=(place,),
        looks_from=((place,),),
        candidates=candidates,
        notes=notes,
    )


def _likeliest(model: Model, encoding: Encoding, place: int) -> int:
    batch = Batch.from_lists([encoding.ids], [encoding.segments])
    logits = model.engine(batch, predict_at=torch.tensor([place]), heads_only=True).mlm
    assert logits is not None
    return int(logits[0, : len(model.tokenizer)].argmax())


def _parsed(model: Model, target: str | None, num_masks: int) -> tuple[int, str | None]:
    """Return the number of the mask and the piece that are asked about."""
    if target is None:
        return 0, None
    number, _, piece = target.partition("=")
    if not (number.isascii() and number.isdecimal() and len(number) < 10 and piece):
        number, piece = "1", target
    if not 1 <= int(number) <= num_masks:
        raise UserError(f"target={target!r}: the text has {num_masks} [MASK]; count them from 1")
    vocabulary = model.tokenizer.vocabulary
    known = next((one for one in (piece, piece.lower()) if one in vocabulary), None)
    if known is None:
        raise UserError(
            f"target={piece!r} is not one of the {len(vocabulary):,} pieces"
            f"{guess(piece, vocabulary.pieces)}; see them with `glassbert tokenize`"
        )
    return int(number) - 1, known


def _subject(
    model: Model, texts: Sequence[str], encoding: Encoding, fixed_ids: Sequence[int], **fields: object
) -> Subject:
    spots: list[Spot | None] = []
    counts = [0, 0]
    specials = (model.tokenizer.vocabulary.cls_id, model.tokenizer.vocabulary.sep_id)
    for id_, segment, (start, end) in zip(encoding.ids, encoding.segments, encoding.offsets, strict=True):
        if start == end and id_ in specials:
            spots.append(None)
            continue
        spots.append(Spot(Place(segment, start, end), counts[segment]))
        counts[segment] += 1
    ids = (np.array(encoding.ids, dtype=np.int32),)
    return Subject(
        task="fill" if fields.get("read") else "none",
        texts=tuple(texts),
        ids=ids,
        segments=(np.array(encoding.segments, dtype=np.int8),),
        tokens=tokens_of(ids, [spots], model.tokenizer.vocabulary.pieces, fixed_ids),
        **fields,  # type: ignore[arg-type]
    )
