"""Encoder-decoders small enough to be computed by hand, and random pairs for them."""

from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from glassbert.config import BertConfig, LstmConfig, TransformerConfig
from glassbert.model.init import new_lstm, new_transformer
from glassbert.model.lstm import Lstm
from glassbert.model.seq2seq import Transformer

VOCAB_SIZE = 20
START, END = 0, 1
SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "hidden_act": "relu",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "max_position_embeddings": 48,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "positions": "sinusoidal",
}
KINDS = ["post", "pre", "learned", "rotary", "lstm", "lstm without attention"]


def small_transformer(*, seed: int = 0, num_decoder_layers: int = 2, **changes: Any) -> Transformer:
    """Return a Transformer whose every weight is random, biases and LayerNorm too."""
    config = TransformerConfig(encoder=BertConfig(**SHAPE | changes), num_decoder_layers=num_decoder_layers)
    return randomised(new_transformer(config, seed=seed))


def small_lstm(*, seed: int = 0, **changes: Any) -> Lstm:
    """Return a recurrent model whose every weight is random."""
    settings = {"vocab_size": VOCAB_SIZE, "hidden_size": 16, "max_position_embeddings": 48}
    return randomised(new_lstm(LstmConfig(**settings | changes), seed=seed))


def small_network(kind: str, **changes: Any) -> Transformer | Lstm:
    """Return a network of one of `KINDS`."""
    if kind.startswith("lstm"):
        return small_lstm(has_attention=kind == "lstm", **changes)
    if kind == "post":
        return small_transformer(**changes)
    # With one matrix for both, a token of an untrained model is mostly followed by itself.
    option = {"norm_position" if kind == "pre" else "positions": kind}
    return small_transformer(tie_word_embeddings=False, **option, **changes)


def randomised(network: Any) -> Any:
    """Shake vectors, which start as ones and zeros, and make the end likely enough to be met."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.3)
        network.output.bias[END] = 1.5
    return network.eval()


def teacher_forced(network: Any, source: list[int], target: list[int]) -> Tensor:
    """Return the log-probabilities behind each token of one target, (T, V), without any cache."""
    from glassbert.model.layout import Batch

    with torch.no_grad():
        logits = network.output(network(Batch.from_lists([source]), Batch.from_lists([target])))
        logits[:, START] = -torch.inf
        return logits.log_softmax(dim=-1)


def parameters_of(network: nn.Module) -> dict[str, Tensor]:
    """Return the values of the weights by name."""
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


texts = st.lists(st.integers(2, VOCAB_SIZE - 1), min_size=1, max_size=9)
sources = st.lists(texts, min_size=1, max_size=5)
