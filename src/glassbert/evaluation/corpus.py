"""How well a pre-trained model knows a corpus: the losses of pre-training, measured and not trained."""

from dataclasses import replace
from pathlib import Path

import torch

from glassbert.data.corpus.shards import Corpus
from glassbert.errors import ModelError
from glassbert.inference.model import Model
from glassbert.tasks.objectives.registry import make_objective, settings_of_run

_BATCH_TOKENS = 8192


def measure_corpus(
    model: Model, folder: Path, *, num_tokens: int = 100_000, max_length: int | None = None
) -> tuple[dict[str, float], int]:
    """Return the loss and accuracy of masked tokens and, if the model judges pairs, of next sentences.

    The second value is the number of examples that were measured.

    Args:
        num_tokens: How much of the corpus is measured; the same places are masked in every call.
        max_length: Tokens of the longest example; as long as the model takes when not given.
    """
    if model.network.mlm is None:
        raise ModelError(
            f"a model with a {model.config.head!r} head has no MLM head; a corpus measures one that has"
        )
    length = max_length or model.max_length
    settings = replace(settings_of_run(model.run, model.config), max_length=length)
    objective = make_objective(settings, model.tokenizer.vocabulary)
    found = objective.held_out_batches(
        Corpus.open(folder), num_tokens, batch_tokens=max(_BATCH_TOKENS, length)
    )
    batches = tuple(found)
    with torch.inference_mode():
        metrics = objective.measure(objective.network(model.network, seed=0), batches)
    return metrics, sum(batch.num_examples for batch in batches)
