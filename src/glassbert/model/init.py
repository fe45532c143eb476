"""Weight initialisation, all of it."""

import torch
from torch import Tensor, nn

from glassbert.config import ModelConfig
from glassbert.model.bert import Bert


def initialise(model: nn.Module, std: float, generator: torch.Generator) -> None:
    """Set the weights as BERT does: a normal cut at two deviations; biases zero; LayerNorm 1 and 0."""
    done: set[Tensor] = set()  # a tied matrix is drawn once, so the head does not change the encoder
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding) and module.weight not in done:
            done.add(module.weight)
            nn.init.trunc_normal_(module.weight, std=std, a=-2 * std, b=2 * std, generator=generator)
        if isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
        if isinstance(module, nn.Linear | nn.LayerNorm) and module.bias is not None:
            nn.init.zeros_(module.bias)


def new_bert(config: ModelConfig, *, seed: int) -> Bert:
    """Return a freshly initialised model; the same seed gives the same weights."""
    # Built without values first: torch's own initialisation would be drawn from the global generator.
    with torch.device("meta"):
        model = Bert(config)
    model.to_empty(device="cpu")
    model.tie_weights()
    initialise(model, config.encoder.initializer_range, torch.Generator().manual_seed(seed))
    return model
