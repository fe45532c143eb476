"""A whole network in int8: which layers share an input, what computed it, and how large it can be."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from torch import Tensor, nn

from glassbert.errors import ModelError, UserError
from glassbert.heads import HEADS
from glassbert.inference.linear.int8 import LOWEST, InputForm, Int8Embedding, Int8Linear, smoothing_of
from glassbert.interop.on_demand import OnDemand
from glassbert.model.bert import Bert, Encoder
from glassbert.model.block import Block
from glassbert.model.embeddings import Embeddings
from glassbert.model.init import Network, tied_names, without_values
from glassbert.model.lstm import Lstm
from glassbert.model.seq2seq import Transformer
from glassbert.model.stack import Stack

N = TypeVar("N", bound=Network)


class _Readers(NamedTuple):
    """Layers of one parent that read the same input."""

    parent: nn.Module
    names: Sequence[str]
    norm: nn.LayerNorm | None = None
    """What computed the input, if a LayerNorm did."""
    lowest: float | None = None
    """No input is below this, if an activation computed it."""


def quantised(
    network_class: type[N], config: Any, *, state: Mapping[str, Tensor], seed: int | None = None
) -> N:
    """Return a network in int8, with the arguments of `materialised`; nothing may be fresh.

    Tensors are read one after the other: the float32 weights are never in memory together.
    """
    assert seed is None
    network = without_values(network_class, config)
    tied = tied_names(network)
    names = dict.fromkeys(name for name, _ in network.named_parameters(remove_duplicate=False))
    values = OnDemand(names, lambda name: state[tied.get(name, name)])
    for name, part in network.named_modules():
        if isinstance(part, nn.LayerNorm):  # layers are smoothed by them
            _fill(part, name, values)
    quantise(network, values=values)
    for name, part in network.named_modules():
        if any(parameter.is_meta for parameter in part.parameters(recurse=False)):
            _fill(part, name, values)
    return network


def quantise(
    network: nn.Module, *, with_heads: bool = True, values: Mapping[str, Tensor] | None = None
) -> None:
    """Replace the linear layers and the token tables of ``network`` by their int8 forms.

    Args:
        with_heads: Also what is outside of the blocks.
        values: Of the parameters that are replaced, where the network has none.
    """
    if isinstance(network, Lstm):
        raise UserError("precision='int8', but this is an LSTM, which has no int8 form; use 'float32'")
    for readers in list(_all_readers(network, with_heads)):
        _replace(network, readers, values)
    if with_heads:
        for part in network.modules():
            if isinstance(part, Embeddings):
                _fill(part.token, _name_of(network, part.token), values)
                setattr(part, "token", Int8Embedding(part.token))  # noqa: B010 - not the class of before


def is_quantised(network: nn.Module) -> bool:
    """Return whether layers of ``network`` are in int8."""
    return any(isinstance(part, Int8Linear) for part in network.modules())


def _replace(network: nn.Module, readers: _Readers, values: Mapping[str, Tensor] | None) -> None:
    layers = {name: getattr(readers.parent, name) for name in readers.names}
    for layer in layers.values():
        _fill(layer, _name_of(network, layer), values)
    form = InputForm(
        None if readers.norm is None else smoothing_of(readers.norm, list(layers.values())), readers.lowest
    )
    for name, layer in layers.items():
        try:
            setattr(readers.parent, name, Int8Linear(layer, form))
        except ModelError as error:
            raise ModelError(f"{_name_of(network, layer)}: {error}") from None


def _fill(part: nn.Module, name: str, values: Mapping[str, Tensor] | None) -> None:
    """Give the parameters of one part their values, if they have none."""
    if values is not None:
        own = {key: values[f"{name}.{key}"] for key, _ in part.named_parameters(recurse=False)}
        part.load_state_dict(own, strict=False, assign=True)


def _name_of(network: nn.Module, layer: nn.Module) -> str:
    return next(name for name, module in network.named_modules() if module is layer)


def _all_readers(network: nn.Module, with_heads: bool) -> Iterator[_Readers]:
    for part in network.modules():
        if isinstance(part, Stack):
            memory = _last_norm(network.encoder) if isinstance(network, Transformer) else None
            yield from _readers_in_stack(part, memory)
        elif isinstance(part, Bert) and with_heads:
            yield from _readers_in_heads(part)
        elif isinstance(part, Transformer) and with_heads:
            yield _Readers(part, ["output"], _last_norm(part.decoder))


def _readers_in_stack(stack: Stack, memory: nn.LayerNorm | None) -> Iterator[_Readers]:
    """Yield those of the blocks.

    Args:
        memory: What computed the states that cross-attention reads.
    """
    before: nn.LayerNorm | None = stack.embeddings.norm if isinstance(stack, Encoder) else None
    for block in stack.blocks:
        assert isinstance(block, Block)
        norms: tuple[nn.LayerNorm | None, ...] = (block.attention_norm, block.cross_norm, block.mlp_norm)
        if not block.is_pre_norm:
            norms = (before, block.attention_norm, block.cross_norm or block.attention_norm)
        of_attention, of_cross, of_mlp = norms
        yield _Readers(block.attention, ["query", "key", "value"], of_attention)
        yield _Readers(block.attention, ["output"])
        if block.cross_attention is not None:
            yield _Readers(block.cross_attention, ["query"], of_cross)
            yield _Readers(block.cross_attention, ["key", "value"], memory)
            yield _Readers(block.cross_attention, ["output"])
        mlp = block.mlp
        if mlp.gate is None:
            yield _Readers(mlp, ["inner"], of_mlp)
            yield _Readers(mlp, ["outer"], lowest=LOWEST[mlp.activation])
        else:
            yield _Readers(mlp, ["inner", "gate"], of_mlp)
            yield _Readers(mlp, ["outer"])
        before = block.mlp_norm


def _readers_in_heads(network: Bert) -> Iterator[_Readers]:
    last, reads = _last_norm(network.encoder), HEADS[network.config.head].reads
    if network.pooler is not None:
        yield _Readers(network.pooler, ["dense"], last)
    if network.mlm is not None:
        yield _Readers(network.mlm, ["dense"], last)
        yield _Readers(network.mlm, ["decoder"], network.mlm.norm)
    if network.labels is not None:
        yield _Readers(network.labels, ["dense"], None if reads["labels"] == "pooled" else last)
    if network.nsp is not None:
        yield _Readers(network, ["nsp"])
    if network.span is not None:
        yield _Readers(network, ["span"], last)


def _last_norm(stack: Stack) -> nn.LayerNorm:
    last = stack.blocks[-1]
    assert isinstance(last, Block)
    return last.mlp_norm if stack.final_norm is None else stack.final_norm
