import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassbert.config import BertConfig, ModelConfig
from glassbert.inference import fused as fused_layers
from glassbert.inference.engine import Engine, batches_by_length
from glassbert.inference.fused import FusedLinear, fused
from glassbert.model.init import new_bert
from glassbert.model.layout import Batch
from glassbert.model.linear import Linear
from helpers.oracles import small_tokenizer


@given(st.lists(st.integers(1, 600), max_size=80), st.integers(1, 1000))
def test_every_sequence_is_in_exactly_one_batch(lengths: list[int], budget: int) -> None:
    batches = list(batches_by_length(lengths, budget))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    ordered = [lengths[index] for batch in batches for index in batch]
    assert ordered == sorted(ordered)
    assert all(batches)


def test_batches_share_the_tokens_evenly() -> None:
    sizes = [10 * len(batch) for batch in batches_by_length([10] * 250, 1000)]
    assert sizes == [1250, 1250]


@pytest.mark.parametrize("activation", [None, "gelu", "gelu_new", "relu", "silu"])
@pytest.mark.parametrize("has_residual", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_fused_layer_computes_the_same(activation: str | None, has_residual: bool, has_bias: bool) -> None:
    torch.manual_seed(0)
    plain = Linear(24, 40, bias=has_bias).eval()
    layer = FusedLinear(plain)
    for rows in (1, 7, 300):
        x = torch.randn(rows, 24)
        residual = torch.randn(rows, 40) if has_residual else None
        with torch.inference_mode():
            expected = plain(x, activation=activation, residual=residual)
            got = layer(x, activation=activation, residual=residual)
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("num_floats", "has_long_batches", "num_fused"), [(8, True, 0), (8, False, 12), (16, True, 12)]
)
def test_fusing_where_it_pays_changes_no_answer_and_leaves_the_network_alone(
    num_floats: int, has_long_batches: bool, num_fused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused_layers, "simd_width", lambda: num_floats)
    shape = BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32
    )
    network = new_bert(ModelConfig(encoder=shape, head="pretraining"), seed=0).eval()
    twin = fused(network, has_long_batches=has_long_batches)
    assert not any(isinstance(module, FusedLinear) for module in network.modules())
    assert sum(isinstance(module, FusedLinear) for module in twin.modules()) == num_fused
    assert twin.encoder.embeddings.token.weight is network.encoder.embeddings.token.weight
    batch = Batch.from_lists([[2, 7, 9, 3], [2, 8, 3]])
    with torch.inference_mode():
        at = torch.tensor([1])
        expected, got = network(batch, predict_at=at), twin(batch, predict_at=at)
    torch.testing.assert_close(got.hidden, expected.hidden, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(got.mlm, expected.mlm, atol=1e-5, rtol=1e-5)


def test_answers_come_in_the_order_of_the_questions() -> None:
    shape = BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=4, intermediate_size=32
    )
    engine = Engine.of(new_bert(ModelConfig(encoder=shape), seed=0), batch_tokens=8)
    texts = ["a b c d e", "a", "a b c", "", "a b"]
    encodings = small_tokenizer().encode_batch(texts)
    lengths = engine.map(encodings, lambda output, batch, _: list(batch.layout.lengths))
    assert lengths == [len(encoding.ids) for encoding in encodings]


@pytest.mark.parametrize(("workers", "expected"), [(1, 11), (2, 12), (4, 12), (12, 11)])
def test_workers_get_as_many_batches_each_where_there_are_enough(workers: int, expected: int) -> None:
    assert len(list(batches_by_length([10] * 110, 100, multiple_of=workers))) == expected
