"""How well a pre-trained model knows a corpus: the losses of pre-training, measured and not trained."""

from pathlib import Path

import torch

from glassbert.data.corpus.shards import Corpus
from glassbert.data.pretraining.objective import PretrainObjective
from glassbert.data.pretraining.settings import ObjectiveSettings
from glassbert.errors import ModelError
from glassbert.inference.model import Model
from glassbert.tasks.pretraining import Pretrain

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
    settings = ObjectiveSettings(
        objective="mlm" if model.network.nsp is None else "mlm+nsp",
        max_length=length,
        batch_tokens=max(_BATCH_TOKENS, length),
        seed=0,
    )
    objective = PretrainObjective(Corpus.open(folder), model.tokenizer.vocabulary, settings)
    batches = tuple(objective.evaluation_batches(num_tokens))
    task = Pretrain(model.network, model.tokenizer, objective, held_out=batches)
    with torch.inference_mode():
        return task.evaluate(), sum(batch.num_examples for batch in batches)
