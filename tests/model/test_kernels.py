"""Which kernel is taken when; and that FlashAttention, which needs a GPU, is called as it wants to be.

A stand-in with its signature computes the formula on the CPU, sequence by sequence. Fake tensors show what
would be chosen on a GPU; see also tests/inference/test_engine.py.
"""

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import varlen as torch_varlen

from glassbert.config import BertConfig, ModelConfig
from glassbert.model import kernels
from glassbert.model.attention import Attention
from glassbert.model.init import new_bert
from glassbert.model.kernels import Spec, choose_kernel
from glassbert.model.layout import Batch, Layout
from glassbert.model.tap import Tap
from helpers.small_translators import START, small_transformer

SHAPE = BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
IGNORE = Tap(lambda _, value: value)
RAGGED = Layout((4, 4, 1, 7))


@dataclass
class StandIn:
    """`varlen_attn` on the CPU, in the plainest way; refuses what FlashAttention refuses."""

    calls: list[bool] = field(default_factory=list)

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        cu_seq_q: Tensor,
        cu_seq_k: Tensor,
        max_q: int,
        max_k: int,
        *,
        window_size: tuple[int, int] = (-1, -1),
    ) -> Tensor:
        is_causal = window_size == (-1, 0)
        self.calls.append(is_causal)
        assert is_causal or window_size == (-1, -1)
        for packed, borders, longest in ((query, cu_seq_q, max_q), (key, cu_seq_k, max_k)):
            assert packed.stride(-1) == 1
            assert borders.dtype == torch.int32
            assert borders.device == packed.device
            assert borders[0] == 0
            assert borders[-1] == len(packed)
            assert longest == borders.diff().max()
        contexts = []
        for (a, b), (c, d) in zip(pairs(cu_seq_q), pairs(cu_seq_k), strict=True):
            scores = torch.einsum("qnh,knh->nqk", query[a:b], key[c:d]) / math.sqrt(query.size(2))
            if is_causal:
                hidden = torch.ones(b - a, d - c, dtype=torch.bool).triu(1 + (d - c) - (b - a))
                scores = scores.masked_fill(hidden, -math.inf)
            contexts.append(torch.einsum("nqk,knh->qnh", scores.softmax(-1), value[c:d]))
        return torch.cat(contexts)


def pairs(borders: Tensor) -> Iterator[tuple[int, int]]:
    return zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Attend as on a GPU in half precision, but on the CPU and in float32."""
    found = StandIn()
    monkeypatch.setattr(torch_varlen, "varlen_attn", found)
    monkeypatch.setattr(kernels, "can_take_varlen", lambda q, num_heads: True)
    return found


def test_the_stand_in_is_called_as_the_original_is() -> None:
    original = inspect.signature(torch_varlen.varlen_attn).parameters
    for name, parameter in inspect.signature(StandIn().__call__).parameters.items():
        assert original[name].kind == parameter.kind
        assert original[name].default == parameter.default
    assert list(original)[:7] == list(inspect.signature(StandIn().__call__).parameters)[:7]


def both_ways(run: Callable[[Tap | None], Tensor], inputs: list[Tensor]) -> None:
    """Compare results and gradients of the fast path with those of the formula."""
    found = []
    for tap in (None, IGNORE):
        for one in inputs:
            one.grad = None
        output = run(tap)
        (output * torch.linspace(-1, 1, output.size(1))).square().sum().backward()
        found.append([output.detach(), *(one.grad for one in inputs)])
    for fast, taught in zip(*found, strict=True):
        torch.testing.assert_close(fast, taught, atol=1e-5, rtol=1e-4)


def make(*, is_causal: bool = False) -> Attention:
    torch.manual_seed(0)
    return Attention(SHAPE, is_causal=is_causal)


@pytest.mark.parametrize("is_causal", [False, True])
def test_one_call_equals_the_formula_for_ragged_lengths(stand_in: StandIn, is_causal: bool) -> None:
    attention, x = make(is_causal=is_causal), torch.randn(16, 16, requires_grad=True)
    both_ways(lambda tap: attention(x, RAGGED, tap=tap), [x, *attention.parameters()])
    assert stand_in.calls == [is_causal]


def test_one_call_equals_the_formula_for_cross_attention(stand_in: StandIn) -> None:
    attention, x, memory = make(), torch.randn(6, 16, requires_grad=True), torch.randn(9, 16)
    memory.requires_grad_()
    layout, memory_layout = Layout((1, 3, 2)), Layout((4, 4, 1))
    both_ways(
        lambda tap: attention(x, layout, memory=memory, memory_layout=memory_layout, tap=tap),
        [x, memory, *attention.parameters()],
    )
    assert stand_in.calls == [False]


def test_one_call_equals_the_formula_for_selected_tokens(stand_in: StandIn) -> None:
    attention, x = make(), torch.randn(16, 16, requires_grad=True)
    some = RAGGED.select(torch.tensor([0, 2, 5, 8, 9, 15]))
    both_ways(
        lambda tap: attention(x[some.index], some, memory=x, memory_layout=RAGGED, tap=tap),
        [x, *attention.parameters()],
    )
    assert stand_in.calls == [False]


def test_a_layer_of_a_network_is_one_call(stand_in: StandIn) -> None:
    network = new_bert(ModelConfig(encoder=SHAPE, head="pretraining"), seed=0)
    batch, at = Batch.from_lists([[2, 7, 9, 3], [2, 8, 3], [2, 8, 9, 3]]), torch.tensor([1, 5])
    fast, taught = (network(batch, predict_at=at, heads_only=True, tap=tap) for tap in (None, IGNORE))
    assert len(stand_in.calls) == 2
    torch.testing.assert_close(fast.mlm, taught.mlm, atol=1e-5, rtol=1e-4)
    transformer = small_transformer()
    source, target = Batch.from_lists([[3, 4, 5], [6, 7]]), Batch.from_lists([[START, 8], [START, 9, 10]])
    stand_in.calls.clear()
    fast_states, taught_states = (transformer(source, target, tap=tap) for tap in (None, IGNORE))
    assert stand_in.calls == [False, False, True, False, True, False]  # the decoder's own are causal
    torch.testing.assert_close(fast_states, taught_states, atol=1e-5, rtol=1e-4)


def fake_gpu(dtype: torch.dtype, width: int = 16) -> Tensor:
    return torch.empty(16, width, device="cuda:0", dtype=dtype)


@pytest.fixture
def modern_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


@pytest.mark.usefixtures("modern_gpu")
def test_the_device_the_precision_and_the_task_choose_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = Spec(RAGGED, RAGGED, num_heads=2, is_causal=False)
    half, single, cpu = fake_gpu(torch.bfloat16), fake_gpu(torch.float32), torch.empty(16, 16)
    for q in (half, fake_gpu(torch.float16)):
        assert choose_kernel(q, spec) is kernels.varlen
        assert choose_kernel(q, spec._replace(dropout=0.1)) is kernels.fused
        assert choose_kernel(q, spec._replace(tap=IGNORE)) is kernels.formula
    assert choose_kernel(single, spec) is choose_kernel(cpu, spec) is kernels.fused
    assert choose_kernel(cpu, spec._replace(dropout=0.1)) is kernels.formula
    assert choose_kernel(cpu.bfloat16(), spec) is kernels.formula
    with torch.no_grad():
        assert choose_kernel(half, spec) is kernels.varlen
        assert choose_kernel(single, spec) is choose_kernel(cpu, spec) is kernels.in_place
        assert choose_kernel(cpu.bfloat16(), spec) is kernels.in_place
    # What FlashAttention cannot do: heads of 12 or 264 features, GPUs before Ampere.
    assert choose_kernel(fake_gpu(torch.bfloat16, 24), spec) is kernels.fused
    assert choose_kernel(fake_gpu(torch.bfloat16, 528), spec) is kernels.fused
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert choose_kernel(half, spec) is kernels.fused
