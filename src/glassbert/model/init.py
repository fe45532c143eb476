"""Networks with values: given weights, fresh weights, or both. All weight initialisation is here."""

import os
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from glassbert.arguments import checked
from glassbert.config import LstmConfig, ModelConfig, TransformerConfig
from glassbert.errors import UserError
from glassbert.model.bert import Bert
from glassbert.model.block import Block
from glassbert.model.lstm import Lstm
from glassbert.model.positions import sinusoids, turning
from glassbert.model.seq2seq import Transformer
from glassbert.ranges import Seed
from glassbert.signals import held
from glassbert.typed import typed

Network = Bert | Transformer | Lstm
N = TypeVar("N", bound=Network)
_BYTES = 4
"""Of a float32."""


def without_values(network_class: type[N], config: Any) -> N:
    """Return a network whose tensors have shapes and no values."""
    # A signal inside torch's own steps there would leave it with the wrong device.
    with held(), torch.device("meta"):
        network = network_class(config)
    network.float()  # whatever torch's default dtype is now
    return network


def allocate(module: nn.Module) -> None:
    """Give the tensors of a module without values their memory, with arbitrary numbers in it."""
    # As `to_empty` does, which imports sympy for it: half a second before the first answer.
    empty = {
        name: torch.empty(value.shape, dtype=value.dtype, device="cpu")
        for name, value in module.state_dict().items()
    }
    module.load_state_dict(empty, assign=True)


def materialised(
    network_class: type[N],
    config: Any,
    *,
    state: Mapping[str, Tensor] | None = None,
    seed: int | None = None,
) -> N:
    """Return a network with values.

    Args:
        config: The network's own config.
        state: Tensors by our names, which the network takes over as they are. A tied one may be left out.
        seed: Draw what ``state`` lacks from this seed; without it, nothing may be lacking.
    """
    # Built without values first: torch's own initialisation would be drawn from the global generator.
    network = without_values(network_class, config)
    if seed is not None:
        _check_memory(network)
        allocate(network)
        network.tie_weights()
        _initialise(network, torch.Generator().manual_seed(typed(seed, Seed, "seed")))
    if state is not None:
        found = network.load_state_dict(dict(state), strict=False, assign=True)
        assert not found.unexpected_keys, f"{network_class.__name__} has no {found.unexpected_keys[0]}"
        network.tie_weights()
    missing = [name for name, parameter in network.named_parameters() if parameter.is_meta]
    assert not missing, f"{missing[0]} has no value"
    return network


def _check_memory(network: nn.Module) -> None:
    """Refuse a network that does not fit into this machine's memory, before any is allocated."""
    needed = sum(parameter.numel() for parameter in network.parameters()) * _BYTES
    if os.name == "posix" and needed > (there := os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")):
        raise UserError(
            f"the weights of this model take {needed / 1e9:,.0f} GB, and the machine has "
            f"{there / 1e9:,.0f} GB; choose a smaller shape"
        )


@checked
def new_bert(config: ModelConfig, *, seed: int) -> Bert:
    """Return a freshly initialised model; the same seed gives the same weights."""
    return materialised(Bert, config, seed=seed)


@checked
def new_transformer(config: TransformerConfig, *, seed: int) -> Transformer:
    """Return a freshly initialised encoder-decoder; the same seed gives the same weights."""
    return materialised(Transformer, config, seed=seed)


def new_lstm(config: LstmConfig, *, seed: int) -> Lstm:
    """Return a freshly initialised recurrent model; the same seed gives the same weights."""
    return materialised(Lstm, config, seed=seed)


def tied_names(network: nn.Module) -> dict[str, str]:
    """Return the name of every shared tensor, with the name under which it is stored."""
    first: dict[Tensor, str] = {}
    tied: dict[str, str] = {}
    for name, parameter in network.named_parameters(remove_duplicate=False):
        other = first.setdefault(parameter, name)
        if other != name:
            tied[name] = other
    return tied


def _initialise(network: Network, generator: torch.Generator) -> None:
    if isinstance(network, Bert):
        initialise(network, network.config.encoder.initializer_range, generator)
    else:
        initialise_evenly(network, generator)


def initialise(model: nn.Module, std: float, generator: torch.Generator) -> None:
    """Set the weights as BERT does: normal, cut at two deviations; biases zero; LayerNorm 1 and 0."""
    done: set[Tensor] = set()  # a tied matrix is drawn once, so the head does not change the encoder
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding) and module.weight not in done:
            done.add(module.weight)
            nn.init.trunc_normal_(module.weight, std=std, a=-2 * std, b=2 * std, generator=generator)
    _reset_biases_and_norms(model)


def initialise_evenly(model: nn.Module, generator: torch.Generator) -> None:
    """Set the weights so that signals keep their size in both directions: Glorot's uniform; biases zero.

    Embeddings have a deviation of 1 / sqrt(D): times sqrt(D) a token is as large as its position, and as the
    output's matrix they give logits of moderate size.
    """
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    for module in model.modules():
        if isinstance(module, nn.Linear) and all(module.weight is not table.weight for table in tables):
            nn.init.xavier_uniform_(module.weight, generator=generator)
        if isinstance(module, nn.LSTM):
            _initialise_lstm(module, generator)
    for table in tables:
        nn.init.normal_(table.weight, std=table.embedding_dim**-0.5, generator=generator)
    _reset_biases_and_norms(model)


def _reset_biases_and_norms(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
        if isinstance(module, nn.Linear | nn.LayerNorm) and module.bias is not None:
            nn.init.zeros_(module.bias)


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


@torch.no_grad()
def look_at_neighbours(model: Bert) -> None:
    """Let each head of the first block start by looking one token back, one ahead, two back, two ahead...

    From random weights, a model with a table of positions takes long to find out which row is next to which,
    and until then it guesses by frequency. Here the rows start as waves, of which the one k tokens away is a
    rotation, and a query as that rotation of its own position. All of it is trained as usual.
    """
    table, attention = model.encoder.embeddings.position, cast(Block, model.encoder.blocks[0]).attention
    if table is None:
        raise UserError(
            f"model.neighbour_heads starts from a table of positions, and these are "
            f"{model.config.encoder.positions}; leave it out, or set model.positions='learned'"
        )
    width, head_size = table.embedding_dim, table.embedding_dim // attention.num_heads
    # Twice the deviation of a token's features, so that positions count; a wave's mean square is a half.
    amplitude = 2 * 2**0.5 * model.config.encoder.initializer_range
    table.weight.copy_(amplitude * sinusoids(*table.weight.shape))
    for head in range(attention.num_heads):
        rows = slice(head * head_size, (head + 1) * head_size)
        distance = (head // 2 + 1) * (-1 if head % 2 == 0 else 1)
        # The fastest waves, which tell neighbours apart.
        attention.key.weight[rows] += torch.eye(head_size, width, dtype=torch.float32)
        attention.query.weight[rows] += turning(distance, width)[:head_size]
