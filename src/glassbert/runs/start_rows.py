"""Initial rows of new pieces, from what the model expects in their contexts and from similar characters.

Legend: R new rows, V vocabulary, D hidden size.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from glassbert.inference.model import Model
from glassbert.model.layout import Batch
from glassbert.text.components import Components, relatives
from glassbert.text.extend import ExtensionPlan
from glassbert.text.wordpiece.tokenizer import Tokenizer

Start = Literal["both", "contexts", "components", "pieces"]
_LIKELIEST = 30
"""The number of pieces that an expectation averages over."""


def contexts_of(
    plan: ExtensionPlan, tokenizer: Tokenizer, sentences: Sequence[str], most: int
) -> dict[int, list[str]]:
    """Return sentences with [MASK] in the place of each new piece, by its id; at most ``most`` for each."""
    wanted = {row.id for row in plan.rows}
    found: dict[int, list[str]] = {}
    for sentence, pieces in zip(sentences, tokenizer.stream_pieces(sentences), strict=True):
        for id_, (start, end) in zip(pieces.ids, pieces.offsets, strict=True):
            if id_ in wanted and len(found.setdefault(id_, [])) < most:
                found[id_].append(f"{sentence[:start]} [MASK] {sentence[end:]}")
    return found


@torch.inference_mode()
def expected_rows(model: Model, contexts: Mapping[int, Sequence[str]]) -> dict[int, Tensor]:
    """Return for each new piece the mean of the rows that the model expects in its contexts, (D,)."""
    table = model.network.encoder.embeddings.token.weight
    found: dict[int, Tensor] = {}
    mask_id = model.tokenizer.vocabulary.mask_id
    for id_, texts in contexts.items():
        encodings = [one for one in model.tokenize(texts) if mask_id in one.ids]
        if not encodings:
            continue
        batch = Batch.from_lists([one.ids for one in encodings], [one.segments for one in encodings])
        places = batch.layout.starts + torch.tensor([one.ids.index(mask_id) for one in encodings])
        logits = model.engine(batch, predict_at=places, heads_only=True).mlm
        assert logits is not None
        likely = logits.softmax(dim=1).mean(dim=0).topk(_LIKELIEST)
        weights = likely.values / likely.values.sum()
        found[id_] = weights @ table[likely.indices]
    return found


def started(
    model: Model,
    plan: ExtensionPlan,
    start: Start,
    contexts: Mapping[int, Sequence[str]],
    components: Components,
) -> dict[int, Tensor]:
    """Return the initial value of each new row, (D,); rows about which nothing is known are left out."""
    if start == "pieces":
        return {}
    vocabulary = model.tokenizer.vocabulary
    expected = expected_rows(model, contexts) if start in ("both", "contexts") else {}
    table = model.network.encoder.embeddings.token.weight.detach()
    known = [piece for piece in vocabulary.pieces if len(piece) == 1]
    found: dict[int, Tensor] = {}
    for row in plan.rows:
        parts = [expected[row.id]] if row.id in expected else []
        if start in ("both", "components") and len(row.piece) == 1:
            alike = relatives(row.piece, components, known)
            if alike:
                parts.append(table[[vocabulary.id(piece) for piece in alike]].mean(dim=0))
        if parts:
            found[row.id] = torch.stack(parts).mean(dim=0)
    return found
