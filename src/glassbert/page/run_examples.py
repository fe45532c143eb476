"""What a pre-training run reads: the next examples after a checkpoint, and what that checkpoint predicts."""

from typing import Any

import numpy as np
import torch

from glassbert.data.corpus.reader import Corpus
from glassbert.data.pretraining.batches import PretrainBatch
from glassbert.errors import DataError, UserError
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.model.layout import Batch
from glassbert.page import scripts
from glassbert.page.answer import probabilities
from glassbert.page.pretraining import PAIR_NAMES, predicted
from glassbert.page.run_folder import RunFolder
from glassbert.runs.folder import RECIPE
from glassbert.runs.pretrain import PretrainRecipe, make_batches
from glassbert.runs.recipe import read_recipe
from glassbert.sentence import Sentence
from glassbert.storage import read_log
from glassbert.tasks.objectives.registry import make_objective
from glassbert.training.checkpoint import step_of
from glassbert.training.log import METRICS

NUM_SHOWN = 3


def masked_examples(run: RunFolder, saved: str) -> dict[str, Any]:
    """Return the first examples of the batch that comes after a saved model, with its predictions."""
    folder = run.folder(saved)
    tables = read_recipe(run.path / RECIPE)
    if "objective" not in tables:
        raise UserError(
            Sentence("this run learns a task, not hidden tokens; its examples are rows of a file")
        )
    recipe = PretrainRecipe.of(tables)
    try:
        corpus = Corpus.open(recipe.data.corpus)
    except (DataError, OSError):
        raise UserError(
            Sentence(
                "the corpus of this run, {corpus}, cannot be read from here, so its examples are not shown; "
                "curves and weights need no corpus",
                corpus=recipe.data.corpus.name,
            )
        ) from None
    model = load(folder, Model)
    objective = make_objective(recipe.objective, model.tokenizer.vocabulary)
    step = step_of(folder) if folder.name.startswith("checkpoint-") else _last_step(run)
    batch = make_batches(recipe, corpus, objective).batch(step, recipe.train.steps)
    if "mlm" not in batch.labels or model.network.mlm is None:
        raise UserError(
            Sentence(
                "the objective {name} hides no tokens that could be shown here", name=recipe.objective.name
            )
        )
    return {"step": step, "examples": [_example(model, batch, place) for place in _places(batch)]}


def _last_step(run: RunFolder) -> int:
    return max((row["step"] for _, row in read_log(run.path / METRICS)), default=0)


def _places(batch: PretrainBatch) -> list[int]:
    """Return examples of the batch, from the shortest to the longest."""
    return sorted({int(place) for place in np.linspace(0, batch.num_examples - 1, NUM_SHOWN)})


@torch.inference_mode()
def _example(model: Model, batch: PretrainBatch, number: int) -> dict[str, Any]:
    start = sum(batch.lengths[:number])
    stop = start + batch.lengths[number]
    ids, segments = batch.ids[start:stop].tolist(), batch.segments[start:stop].tolist()
    labels = batch.labels["mlm"]
    assert labels.places is not None
    is_own = (labels.places >= start) & (labels.places < stop)
    places, right = (labels.places[is_own] - start).tolist(), labels.values[is_own].tolist()
    output = model.network(Batch.from_lists([ids], [segments]), predict_at=torch.tensor(places))
    assert output.mlm is not None
    vocabulary = model.tokenizer.vocabulary
    pieces = vocabulary.pieces
    tokens: list[dict[str, Any]] = [
        {"read": pieces[id_], "segment": segment, "kind": "left", "token": None}
        for id_, segment in zip(ids, segments, strict=True)
    ]
    for place, label in zip(places, right, strict=True):
        read = ids[place]
        kind = "mask" if read == vocabulary.mask_id else "kept" if read == label else "random"
        tokens[place] |= {"kind": kind, "token": pieces[label]}
    rows = output.mlm.float().numpy()
    found: dict[str, Any] = {
        "tokens": tokens,
        "predictions": [
            {
                **predicted(place, label, probabilities(row), pieces),
                "python": scripts.of_hidden_token(str(model.folder), (ids, segments), place, label),
            }
            for place, label, row in zip(places, right, rows, strict=True)
        ],
        "pair": None,
    }
    pair = int(batch.labels["nsp"].values[number]) if "nsp" in batch.labels else None
    if pair in PAIR_NAMES and output.nsp is not None:
        scores = probabilities(output.nsp[0].float().numpy()).tolist()
        found["pair"] = {
            "label": PAIR_NAMES[pair],
            "scores": dict(zip(PAIR_NAMES.values(), scores, strict=True)),
        }
    return found
