"""Evaluate a pre-trained model on a corpus, by the objective that it was trained for."""

from dataclasses import replace
from pathlib import Path

import torch

from glassbert.data.corpus.reader import Corpus
from glassbert.errors import UserError
from glassbert.evaluation.result import Evaluation
from glassbert.inference.devices import PrecisionName
from glassbert.inference.model import Model
from glassbert.inference.prepare import prepared
from glassbert.messages import Log
from glassbert.metrics.corpus import CorpusReport
from glassbert.ranges import Length
from glassbert.tasks.objectives.folders import saved_network
from glassbert.tasks.objectives.parts import ObjectiveSettings
from glassbert.tasks.objectives.registry import make_objective, settings_of_run
from glassbert.typed import typed

_BATCH_TOKENS = 8192


def evaluate_corpus(
    model: Model,
    folder: Path,
    *,
    name: str,
    num_tokens: int = 100_000,
    max_length: int | None = None,
    log: Log,
) -> Evaluation:
    """Return loss and accuracy of masked tokens and, if the model judges pairs of texts, of these.

    Objective and lengths are those of the training run, as run.json has them. The masks are not: the same
    tokens are masked for every model, or their losses could not be compared.

    Args:
        name: What the result calls the model.
        num_tokens: How much of the corpus is measured.
        max_length: Tokens of the longest example; as in training when not given.
    """
    settings, notes = _settings(model)
    if max_length is not None:
        settings = replace(settings, max_length=_checked_length(max_length, model))
    objective = make_objective(settings, model.tokenizer.vocabulary)
    network = saved_network(objective, model.network, model.folder)
    # A loss in half precision is measured as in training: products in half precision, losses not.
    precision: PrecisionName = "int8" if model.precision == "int8" else "float32"
    network = prepared(
        network, device=model.device, precision=precision, has_long_batches=True, with_heads=False
    )
    for note in notes:
        log(note)
    batch_tokens = max(_BATCH_TOKENS, settings.max_length)
    batches = tuple(objective.held_out_batches(Corpus.open(folder), num_tokens, batch_tokens=batch_tokens))
    is_half = model.precision == "bfloat16"
    with torch.inference_mode(), torch.autocast(model.device.type, torch.bfloat16, enabled=is_half):
        scores = objective.measure(network, batches)
    return Evaluation(
        task="pretrain",
        model=name,
        data=str(folder),
        examples=sum(batch.num_examples for batch in batches),
        report=CorpusReport(scores, settings.name, settings.max_length),
        tokens=sum(batch.num_tokens for batch in batches),
        notes=tuple(notes),
    )


def _checked_length(max_length: int, model: Model) -> int:
    limit = model.config.encoder.max_position_embeddings
    if typed(max_length, Length, "max_length") > limit:
        raise UserError(f"max_length={max_length} exceeds the {limit} positions of the model; lower it")
    return max_length


def _settings(model: Model) -> tuple[ObjectiveSettings, list[str]]:
    """Return the settings of the training run, and what had to be assumed."""
    settings = settings_of_run(model.run, model.config)
    if "objective" in model.run.get("recipe", {}):
        return settings, []
    note = f"assumed: objective {settings.name}, since no run.json names the one of the training"
    return replace(settings, max_length=model.max_length), [note]
