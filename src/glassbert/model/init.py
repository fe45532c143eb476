"""Weight initialisation, all of it."""

import torch
from torch import Tensor, nn

from glassbert.config import LstmConfig, ModelConfig, TransformerConfig
from glassbert.model.bert import Bert
from glassbert.model.lstm import Lstm
from glassbert.model.seq2seq import Transformer


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


def new_transformer(config: TransformerConfig, *, seed: int) -> Transformer:
    """Return a freshly initialised encoder-decoder; the same seed gives the same weights."""
    with torch.device("meta"):
        model = Transformer(config)
    model.to_empty(device="cpu")
    model.tie_weights()
    initialise_evenly(model, torch.Generator().manual_seed(seed))
    return model


def new_lstm(config: LstmConfig, *, seed: int) -> Lstm:
    """Return a freshly initialised recurrent model; the same seed gives the same weights."""
    with torch.device("meta"):
        model = Lstm(config)
    model.to_empty(device="cpu")
    model.tie_weights()
    initialise_evenly(model, torch.Generator().manual_seed(seed))
    return model


def initialise_evenly(model: nn.Module, generator: torch.Generator) -> None:
    """Set the weights so that signals keep their size in both directions: Glorot's uniform; biases zero.

    Embeddings have a deviation of 1 / sqrt(D): times sqrt(D) a token is as large as its position, and as the
    output's matrix they give logits of moderate size.
    """
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    for module in model.modules():
        if isinstance(module, nn.Linear) and all(module.weight is not table.weight for table in tables):
            nn.init.xavier_uniform_(module.weight, generator=generator)
        if isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
        if isinstance(module, nn.Linear | nn.LayerNorm) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.LSTM):
            _initialise_lstm(module, generator)
    for table in tables:
        nn.init.normal_(table.weight, std=table.embedding_dim**-0.5, generator=generator)


def _initialise_lstm(module: nn.LSTM, generator: torch.Generator) -> None:
    """Draw the weights evenly; open the forget gates, so that a state outlives many steps from the start."""
    for name, parameter in module.named_parameters():
        if name.startswith("weight"):
            bound = module.hidden_size**-0.5
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
            continue
        nn.init.zeros_(parameter)
        if name.startswith("bias_ih"):
            with torch.no_grad():
                parameter[module.hidden_size : 2 * module.hidden_size] = 1.0
