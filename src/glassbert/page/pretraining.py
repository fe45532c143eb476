"""Pre-training on the page: examples of a pasted text, the dice of every token, what the model predicts.

Documents, pairs, masks and labels are made by the code that real runs use; here they are only displayed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from glassbert.data.corpus.pasted import PastedCorpus
from glassbert.data.pretraining.batches import Labels
from glassbert.data.pretraining.corpus_batches import CorpusBatches
from glassbert.data.pretraining.examples import FLIPPED, KEPT, EpochPlan, draft_epoch
from glassbert.data.pretraining.masking import NEVER, Dice, Masker, Masking
from glassbert.data.pretraining.outline import Outline
from glassbert.data.pretraining.packing import Moment, Packing
from glassbert.data.random import Draw
from glassbert.errors import DataError, UserError
from glassbert.inference.model import Model
from glassbert.inference.translator import Translator
from glassbert.model.layout import Batch
from glassbert.page import scripts
from glassbert.page.answer import TOP, probabilities
from glassbert.page.limits import Whole, check_texts
from glassbert.page.refusals import Refusal
from glassbert.sentence import Sentence
from glassbert.tasks.objectives.objective import Objective
from glassbert.tasks.objectives.parts import ObjectiveSettings
from glassbert.tasks.objectives.registry import make_objective
from glassbert.text.segment import segmenter
from glassbert.text.vocabulary import Vocabulary

NUM_DRAWS = 100
# An epoch of the longest text that the page takes is one batch.
_WHOLE_EPOCH = 1 << 20
PAIR_NAMES = {KEPT: "IsNext", FLIPPED: "NotNext"}


class PretrainRequest(msgspec.Struct):
    """A text to make examples of, and how."""

    text: str
    select_prob: float = 0.15
    mask_prob: float = 0.8
    random_prob: float = 0.1
    whole_words: bool = False
    max_length: Whole = 48
    seed: Whole = 0
    epoch: Whole = 0
    example: Whole = 0

    @property
    def masking(self) -> Masking:
        """How tokens are hidden."""
        return Masking(
            select_prob=self.select_prob,
            mask_prob=self.mask_prob,
            random_prob=self.random_prob,
            whole_words=self.whole_words,
        )


class _Watched:
    """An objective that remembers what it was given to label."""

    def __init__(self, objective: Objective) -> None:
        self._objective, self.vocabulary = objective, objective.vocabulary
        self.arrangement, self.max_length = objective.arrangement, objective.max_length
        self.short_prob = objective.short_prob

    def labelled(
        self, ids: NDArray[np.int64], packing: Packing, moment: Moment
    ) -> tuple[NDArray[np.int64], Mapping[str, Labels]]:
        """Record the input, and let the objective label it."""
        self.given = (ids, packing, moment)
        return self._objective.labelled(ids, packing, moment)


@dataclass(frozen=True)
class Example:
    """One example before and after its tokens were hidden."""

    number: int
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    segments: NDArray[np.int64]
    word_starts: NDArray[np.bool_]
    pair_label: int
    moment: Moment

    @property
    def given(self) -> tuple[list[int], list[int]]:
        """The ids and segments that the model reads."""
        return self.after.tolist(), self.segments.tolist()

    @property
    def packing(self) -> Packing:
        """The example as a batch of its own, which gives the same dice."""
        return Packing(
            starts=np.array([0]),
            owners=np.zeros(len(self.before), dtype=np.int64),
            examples=np.array([self.number]),
            pair_labels=np.array([self.pair_label]),
            word_starts=lambda: self.word_starts,
        )


def pretrain_for_page(model: Model | Translator, source: str, asked: PretrainRequest) -> dict[str, Any]:
    """Return one example of a text with its dice, labels and predictions, and what many draws give.

    Args:
        source: What the model was loaded from, for scripts.
    """
    if isinstance(model, Translator):
        raise UserError("a translator learns from pairs of sentences, not from hidden tokens")
    check_texts(asked.text)
    if asked.max_length > model.max_length:
        raise UserError(
            Sentence(
                "max_length={length}; this model reads at most {limit}",
                length=asked.max_length,
                limit=model.max_length,
            )
        )
    corpus = PastedCorpus.of(asked.text, model.tokenizer, segmenter("rjieba") if asked.whole_words else None)
    if not len(corpus.content.ids):
        raise Refusal("blank", "the text is blank; give at least one word")
    settings = ObjectiveSettings(name="mlm+nsp", max_length=asked.max_length, mask=asked.masking)
    try:
        watched, example, num_examples = _made(corpus, model.tokenizer.vocabulary, settings, asked)
    except DataError:  # one document, or only documents of one sentence: nothing to pair
        settings = replace(settings, name="mlm")
        watched, example, num_examples = _made(corpus, model.tokenizer.vocabulary, settings, asked)
    masker = Masker(model.tokenizer.vocabulary)
    dice = masker.roll(example.before, example.packing, example.moment, asked.masking)
    return {
        "example": example.number,
        "num_examples": num_examples,
        "num_documents": len(corpus.content.document_sizes),
        "num_sentences": len(corpus.content.sentence_lengths),
        "pair": _pair(corpus, watched, example, asked, source),
        "tokens": _tokens(model, example, dice, asked.masking),
        **_predictions(model, example, dice, asked, source),
        "draws": _draws(example, masker, asked.masking),
    }


def _made(
    corpus: PastedCorpus, vocabulary: Vocabulary, settings: ObjectiveSettings, asked: PretrainRequest
) -> tuple[_Watched, Example, int]:
    """Return the objective, the example that was asked for and how many there are."""
    watched = _Watched(make_objective(settings, vocabulary))
    batches = CorpusBatches(
        corpus, watched, batch_tokens=_WHOLE_EPOCH, seed=asked.seed, first_epoch=asked.epoch
    )
    batch = batches.batch(0)
    ids, packing, moment = watched.given
    number = asked.example % batch.num_examples
    (place,) = np.flatnonzero(packing.examples == number)
    is_own = packing.owners == place
    example = Example(
        number=number,
        before=ids[is_own],
        after=batch.ids[is_own],
        segments=batch.segments[is_own],
        word_starts=packing.word_starts()[is_own],
        pair_label=int(packing.pair_labels[place]),
        moment=moment,
    )
    return watched, example, batch.num_examples


def _pair(
    corpus: PastedCorpus, watched: _Watched, example: Example, asked: PretrainRequest, model: str
) -> dict[str, Any] | None:
    """Return the coin of a pair, and the documents and sentences that its texts are from."""
    if example.pair_label not in PAIR_NAMES:
        return None
    room = asked.max_length - 1 - watched.arrangement.num_texts
    outline = Outline.from_ends(corpus.sentence_ends, corpus.document_ends, room=room)
    plan = EpochPlan(outline, room, watched.short_prob, asked.seed, asked.epoch)
    drafts = draft_epoch(watched.arrangement, plan)
    firsts = drafts.firsts[example.number : example.number + 1]

    def source(start: int, stop: int, segment: int) -> dict[str, int]:
        num_tokens = int(outline.borders[stop] - outline.borders[start])
        num_kept = int((example.segments == segment).sum()) - (2 if segment == 0 else 1)
        return {
            "document": int(np.searchsorted(outline.document_borders, start, side="right")) - 1,
            "first": start,
            "last": stop - 1,
            "tokens": num_tokens,
            "cut": num_tokens - num_kept,
        }

    return {
        "coin": float(plan.uniform(Draw.FLIP, firsts)[0]),
        "target": int(plan.targets(firsts)[0]),
        "label": PAIR_NAMES[example.pair_label],
        "a": source(int(drafts.a_starts[example.number]), int(drafts.a_stops[example.number]), 0),
        "b": source(int(drafts.b_starts[example.number]), int(drafts.b_stops[example.number]), 1),
        "python": scripts.of_pair(
            model, example.given, example.pair_label, (asked.seed, asked.epoch, int(firsts[0]))
        ),
    }


def fate_names(fates: NDArray[np.float64], masking: Masking) -> list[str]:
    """Return what chosen tokens become: mask, random or kept."""
    limits = (masking.mask_prob, masking.mask_prob + masking.random_prob)
    return ["mask" if fate < limits[0] else "random" if fate < limits[1] else "kept" for fate in fates]


def _tokens(model: Model, example: Example, dice: Dice, masking: Masking) -> list[dict[str, Any]]:
    pieces = model.tokenizer.vocabulary.pieces
    found: list[dict[str, Any]] = [
        {
            "token": pieces[before],
            "read": pieces[after],
            "id": int(before),
            "segment": int(segment),
            "starts_word": bool(starts_word),
            "roll": None if roll == NEVER else float(roll),
            "fate": None,
            "kind": "special" if roll == NEVER else "left",
            "label": None,
        }
        for before, after, segment, starts_word, roll in zip(
            example.before, example.after, example.segments, example.word_starts, dice.choices, strict=True
        )
    ]
    names = fate_names(dice.fates, masking)
    for place, fate, name in zip(dice.places.tolist(), dice.fates.tolist(), names, strict=True):
        found[place] |= {"fate": fate, "kind": name, "label": found[place]["id"]}
    return found


@torch.inference_mode()
def _predictions(
    model: Model, example: Example, dice: Dice, asked: PretrainRequest, source: str
) -> dict[str, Any]:
    """Return the predictions at each chosen place and for the pair; None where the model has no such head."""
    network, pieces = model.network, model.tokenizer.vocabulary.pieces
    device = next(network.parameters()).device
    ids, segments = example.given
    batch = Batch.from_lists([ids], [segments]).to(device)
    output = network(batch, predict_at=torch.from_numpy(dice.places).to(device)).as_float32()
    found: dict[str, Any] = {"predictions": None, "verdict": None}
    if output.mlm is not None:
        rows = output.mlm.cpu().numpy()
        heads = example.packing.word_heads() if asked.whole_words else np.arange(len(ids))
        found["predictions"] = [
            {
                **predicted(place, label, probabilities(row), pieces),
                "python": scripts.of_hidden_token(
                    source,
                    example.given,
                    place,
                    label,
                    (asked.seed, asked.epoch, example.number, int(heads[place])),
                ),
            }
            for place, label, row in zip(
                dice.places.tolist(), example.before[dice.places].tolist(), rows, strict=True
            )
        ]
    if output.nsp is not None and example.pair_label in PAIR_NAMES:
        of_pair = probabilities(output.nsp[0].cpu().numpy())
        found["verdict"] = {
            "scores": dict(zip(PAIR_NAMES.values(), of_pair.tolist(), strict=True)),
            "loss": float(-np.log(of_pair[example.pair_label])),
        }
    return found


def predicted(
    place: int, label: int, of_pieces: NDArray[np.float64], pieces: tuple[str, ...]
) -> dict[str, Any]:
    best = np.argsort(-of_pieces[: len(pieces)], kind="stable")[:TOP]
    return {
        "place": place,
        "probability": float(of_pieces[label]),
        "loss": float(-np.log(of_pieces[label])),
        "best": [{"token": pieces[one], "score": float(of_pieces[one])} for one in best],
    }


def _draws(example: Example, masker: Masker, masking: Masking) -> dict[str, Any]:
    """Return how often each token was chosen in many epochs, and what the chosen ones became."""
    times = np.zeros(len(example.before), dtype=np.int64)
    kinds = {"mask": 0, "random": 0, "kept": 0}
    for epoch in range(NUM_DRAWS):
        moment = replace(example.moment, epoch=epoch)
        dice = masker.roll(example.before, example.packing, moment, masking)
        times[dice.places] += 1
        for name in fate_names(dice.fates, masking):
            kinds[name] += 1
    return {
        "count": NUM_DRAWS,
        "rolled": NUM_DRAWS * int(masker.is_maskable[example.before].sum()),
        "chosen": int(times.sum()),
        "times": times.tolist(),
        **kinds,
    }
