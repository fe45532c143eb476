"""The formulas of `cost` against the real network, measured: operations, live tensors, saved tensors."""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from glassbert.config import BertConfig, ModelConfig, preset
from glassbert.errors import UserError
from glassbert.glassbox.cost import cost, default_lengths, weight_memory
from glassbert.inference.linear import onednn
from glassbert.inference.prepare import prepared
from glassbert.model import kernels
from glassbert.model.bert import Encoder
from glassbert.model.init import new_bert
from glassbert.model.layout import Batch


@st.composite
def encoders(draw: st.DrawFn, *, attention_dropout: float | None = None) -> BertConfig:
    heads, half_head = draw(st.integers(1, 3)), draw(st.integers(4, 8))
    dropouts = st.sampled_from([0.0, 0.1])
    return BertConfig(
        vocab_size=draw(st.integers(5, 50)),
        hidden_size=heads * half_head * 2,
        num_hidden_layers=draw(st.integers(1, 2)),
        num_attention_heads=heads,
        intermediate_size=draw(st.integers(1, 150)),
        hidden_act=draw(st.sampled_from(["gelu", "gelu_new", "relu", "silu"])),
        hidden_dropout_prob=draw(dropouts),
        attention_probs_dropout_prob=draw(dropouts) if attention_dropout is None else attention_dropout,
        max_position_embeddings=32,
        norm_position=draw(st.sampled_from(["post", "pre"])),
        positions=draw(st.sampled_from(["learned", "sinusoidal", "rotary"])),
        gated_mlp=draw(st.booleans()),
        use_bias=draw(st.booleans()),
    )


def batch_of(num_sequences: int, length: int) -> Batch:
    return Batch.from_lists([[1] * length] * num_sequences)


lengths, batch_sizes = st.integers(8, 32), st.integers(1, 3)


@contextmanager
def kept_for_backward(module: nn.Module) -> Iterator[list[int]]:
    """Collect the bytes of each piece of memory, parameters aside, that autograd keeps."""
    known = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    sizes: list[int] = []
    alive = []  # a storage that is gone could give its address to the next

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            known.add(storage.data_ptr())
            sizes.append(storage.nbytes())
            alive.append(storage)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield sizes


class LiveMemory(TorchDispatchMode):
    """Watch every operator: how many bytes that were made since are alive, and the most there ever were."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.older: dict[int, Any] = {}
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for storage in self._storages((args, kwargs)):
            if storage._cdata not in self.sizes:
                self.older[storage._cdata] = storage  # weights, ids, cached tables
        result = func(*args, **(kwargs or {}))
        for storage in self._storages(result):
            if storage._cdata not in self.sizes and storage._cdata not in self.older:
                self.sizes[storage._cdata] = storage.nbytes()
                weakref.finalize(storage, self.sizes.pop, storage._cdata)
                self.peak = max(self.peak, sum(self.sizes.values()))
        return result

    @staticmethod
    def _storages(values: Any) -> Iterator[Any]:
        for value in tree_leaves(values):
            if isinstance(value, Tensor) and value.layout == torch.strided:
                yield value.untyped_storage()


@settings(max_examples=15, deadline=None)
@given(config=encoders(), length=lengths, num_sequences=batch_sizes)
def test_autograd_keeps_exactly_what_the_formula_says(
    config: BertConfig, length: int, num_sequences: int
) -> None:
    encoder = Encoder(config).train()
    with kept_for_backward(encoder) as sizes:
        encoder(batch_of(num_sequences, length))
    assert sum(sizes) == num_sequences * length * cost(config, length).training_bytes_per_token


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_autograd_keeps_of_mlm_head_and_loss_what_the_formula_says(activation: str) -> None:
    config = preset("tiny", vocab_size=300, hidden_act=activation)
    network = new_bert(ModelConfig(encoder=config, head="mlm", has_pooler=False), seed=0).train()
    assert network.mlm is not None
    hidden = torch.randn(40, config.hidden_size, requires_grad=True)
    places = torch.tensor([3, 8, 21])
    with kept_for_backward(network) as sizes:
        F.cross_entropy(network.mlm(hidden[places]), torch.tensor([1, 2, 3]))
    loss_weight = 4  # one number for the whole batch
    assert sum(sizes) - loss_weight == 4 * len(places) * cost(config, 128).mlm_training.value


@pytest.mark.parametrize("plain_is_faster", [True, False])
@settings(max_examples=15, deadline=None)
@given(config=encoders(), length=lengths, num_sequences=batch_sizes)
def test_the_fast_path_holds_at_its_peak_exactly_what_the_formula_says(
    plain_is_faster: bool, config: BertConfig, length: int, num_sequences: int
) -> None:
    batch = batch_of(num_sequences, length)
    with torch.inference_mode(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(onednn, "plain_is_faster", lambda: plain_is_faster)
        # Sequences that are attended to in two portions need less.
        patch.setattr(kernels, "simd_width", lambda: 1)
        network = new_bert(ModelConfig(encoder=config, has_pooler=False), seed=0)
        network = prepared(network, device=torch.device("cpu"), has_long_batches=True)
        network.encoder(batch)  # fills the caches of positions
        with LiveMemory() as memory:
            network.encoder(batch)
    assert memory.peak == num_sequences * length * cost(config, length).inference_bytes_per_token


# torch counts no operations inside its fused attention; with dropout in training it takes the plain products.
@settings(max_examples=15, deadline=None)
@given(config=encoders(attention_dropout=0.1), length=lengths, num_sequences=batch_sizes)
def test_operations_are_those_that_torch_counts(config: BertConfig, length: int, num_sequences: int) -> None:
    network = new_bert(ModelConfig(encoder=config, head="mlm", has_pooler=True), seed=0).train()
    predicted = torch.tensor([0, 4])
    with FlopCounterMode(display=False) as counter:
        output = network(batch_of(num_sequences, length), predict_at=predicted)
    costs = cost(config, length)
    expected = num_sequences * length * costs.forward_flops_per_token
    expected += num_sequences * costs.pooler.value + len(predicted) * costs.mlm.value
    assert counter.get_total_flops() == expected
    assert output.mlm is not None


def test_training_takes_three_times_the_forward_pass() -> None:
    config = preset("tiny", positions="sinusoidal")
    encoder = Encoder(config).train()
    with FlopCounterMode(display=False) as counter:
        encoder(batch_of(2, 16)).sum().backward()
    assert counter.get_total_flops() == 2 * 16 * cost(config, 16).training_flops_per_token


def test_only_scores_and_context_grow_with_the_length() -> None:
    short, long = cost(preset("base"), 128), cost(preset("base"), 512)
    assert (short.projections, short.feed_forward) == (long.projections, long.feed_forward)
    assert long.scores_and_context.value == 4 * short.scores_and_context.value
    assert short.projections.value == 12 * 2 * 4 * 768**2
    assert short.feed_forward.value == 12 * 2 * 2 * 768 * 3072
    assert short.scores_and_context.value == 12 * 4 * 128 * 768


def test_weights_take_the_bytes_of_their_format_and_adamw_eight_more() -> None:
    memory = weight_memory(324_472_832)
    assert (memory.float32, memory.float16, memory.int8) == (1_297_891_328, 648_945_664, 324_472_832)
    assert (memory.gradients, memory.optimiser) == (1_297_891_328, 2 * 4 * 324_472_832)


@pytest.mark.parametrize("length", [0, 513])
def test_a_length_that_the_model_refuses_has_no_cost(length: int) -> None:
    with pytest.raises(UserError, match=f"length={length}; expected 1 to 512"):
        cost(preset("base"), length)


def test_a_short_model_is_shown_at_its_own_length() -> None:
    assert default_lengths(preset("base")) == (128, 512)
    assert default_lengths(preset("base", max_position_embeddings=200)) == (128,)
    assert default_lengths(preset("base", max_position_embeddings=64)) == (64,)
