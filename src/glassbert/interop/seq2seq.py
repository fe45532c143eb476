"""Encoder-decoders in model folders: a MarianMTModel's wherever that computes the same, else our own form."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from glassbert.config import LstmConfig, TransformerConfig
from glassbert.errors import ModelError, UserError
from glassbert.interop.folder import DTYPES
from glassbert.interop.huggingface import check_tensor
from glassbert.interop.marian import from_marian, to_marian
from glassbert.interop.stored import StoredModel
from glassbert.interop.translator_config import is_marian, read_translator_config, write_marian_config
from glassbert.interop.weights import WEIGHTS, write_weights
from glassbert.model.lstm import Lstm
from glassbert.model.seq2seq import Transformer
from glassbert.storage import write_json

Network = Transformer | Lstm
_TIED = "output.weight"


def write_network(network: Network, folder: Path, *, dtype: str = "float32") -> None:
    """Write config.json and the weights into ``folder``, which exists."""
    if dtype not in DTYPES:
        raise UserError(f"dtype={dtype!r}; expected one of {', '.join(DTYPES)}")
    config = network.config
    state = {name: tensor.to(DTYPES[dtype]) for name, tensor in network.state_dict().items()}
    for name, tensor in state.items():
        if not torch.isfinite(tensor).all():
            raise UserError(f"{name} holds numbers that {dtype} cannot; store the model as float32")
    if _is_tied(config):
        del state[_TIED]
    if isinstance(config, TransformerConfig) and is_marian(config):
        state, data = to_marian(state), write_marian_config(config, dtype)
    else:
        data = {"architectures": [type(network).__name__], "model_type": "glassbert", "dtype": dtype}
        data |= asdict(config)
    write_weights(state, folder / WEIGHTS)
    write_json(folder / "config.json", data)


def build_network(source: StoredModel) -> Network:
    """Make an encoder-decoder of what was read; every weight must be there and fit."""
    config = read_translator_config(source.config, str(source.config_path))
    with torch.device("meta"):
        network: Network = Lstm(config) if isinstance(config, LstmConfig) else Transformer(config)
    if isinstance(config, TransformerConfig) and source.config.get("model_type") == "marian":
        state = from_marian(source.tensors, config, source.config_path)
    else:
        state = dict(source.tensors)
        _check(network, state, source.config_path)
    # A copy: file-backed memory is not aligned, and would change under us if the file were written over.
    values = {name: tensor.to(torch.float32, copy=True) for name, tensor in state.items()}
    network.load_state_dict(values, strict=False, assign=True)
    network.tie_weights()
    assert not any(parameter.is_meta for parameter in network.parameters())
    return network.eval()


def _is_tied(config: TransformerConfig | LstmConfig) -> bool:
    return isinstance(config, LstmConfig) or config.encoder.tie_word_embeddings


def _check(network: Network, state: Mapping[str, Tensor], source: Path) -> None:
    expected = {name: tensor.shape for name, tensor in network.state_dict().items()}
    if _is_tied(network.config):
        del expected[_TIED]
    for name in {**expected, **state}:
        if name not in state or name not in expected:
            what = "is missing" if name in expected else "is unexpected"
            raise ModelError(f"{source.parent}: {name} {what}; the weights do not fit their config.json")
        check_tensor(name, state[name], expected[name], source)
