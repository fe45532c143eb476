from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import varlen as torch_varlen

from glassbert.config import BertConfig, ModelConfig
from glassbert.errors import UserError
from glassbert.inference.engine import Engine
from glassbert.model import kernels
from glassbert.model.bert import Bert, Output
from glassbert.model.init import new_bert
from glassbert.model.layout import Batch, Layout
from glassbert.text.wordpiece.tokenizer import Encoding
from helpers.oracles import small_tokenizer

SHAPE = BertConfig(
    vocab_size=60, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96
)
TEXTS = ["a b c d e", "a", "a b c", "", "a b"]


def make(**changes: object) -> Bert:
    shape = BertConfig(**(vars(SHAPE) | {"initializer_range": 0.1} | changes))
    return new_bert(ModelConfig(encoder=shape, head="pretraining"), seed=0).eval()


def first_vectors(output: Output, batch: Batch, _: list[Encoding]) -> Tensor:
    return output.hidden[batch.layout.starts.to(output.hidden.device)]


def test_answers_come_in_the_order_of_the_questions() -> None:
    engine = Engine.of(make(), batch_tokens=8)
    encodings = small_tokenizer().encode_batch(TEXTS)
    lengths = engine.map(encodings, lambda output, batch, _: list(batch.layout.lengths))
    assert lengths == [len(encoding.ids) for encoding in encodings]


def test_every_reader_gets_the_sequences_of_its_batch() -> None:
    encodings = small_tokenizer().encode_batch(TEXTS)
    assert Engine.of(make(), batch_tokens=8).map(encodings, lambda output, batch, chosen: chosen) == encodings


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
def test_bfloat16_answers_in_float32_close_to_the_float32_ones(positions: str) -> None:
    network, encodings = make(positions=positions), small_tokenizer().encode_batch(TEXTS)
    exact = np.stack(Engine.of(network, device="cpu").map(encodings, first_vectors))
    rough = np.stack(Engine.of(network, device="cpu", precision="bfloat16").map(encodings, first_vectors))
    assert exact.dtype == rough.dtype == np.float32
    assert 1e-4 < np.abs(rough - exact).max() < 0.05
    cosines = (rough * exact).sum(1) / np.linalg.norm(rough, axis=1) / np.linalg.norm(exact, axis=1)
    assert cosines.min() > 0.999


def test_one_batch_can_be_asked_for_its_heads() -> None:
    network = make()
    batch, at = Batch.from_lists([[2, 7, 9, 3], [2, 8, 3]]), torch.tensor([1, 5])
    with torch.no_grad():
        expected = network(batch, predict_at=at)
    got = Engine.of(network)(batch, predict_at=at, heads_only=True)
    torch.testing.assert_close(got.mlm, expected.mlm, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(got.nsp, expected.nsp, atol=1e-5, rtol=1e-5)


def test_a_device_or_precision_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="torch sees no GPU"):
        Engine.of(make(), device="cuda")
    with pytest.raises(UserError, match="precision='float8'"):
        Engine.of(make(), precision="float8")  # type: ignore[arg-type]


def test_on_a_gpu_in_half_precision_numbers_stay_there_and_a_layer_is_one_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fake tensors say where each number would be and compute nothing, so no GPU is needed."""
    calls: list[tuple[int, ...]] = []
    original = torch_varlen.varlen_attn

    def counted(query: Tensor, *rest: Any, **options: Any) -> Any:
        calls.append(tuple(query.shape))
        return original(query, *rest, **options)  # torch's own rule for fake tensors

    monkeypatch.setattr(torch_varlen, "varlen_attn", counted)
    for name in ("is_available", "is_bf16_supported"):
        monkeypatch.setattr(torch.cuda, name, lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    layout = Layout((4, 7, 7))
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        config = ModelConfig(encoder=SHAPE, head="tag", labels=("a", "b"), has_pooler=False)
        engine = Engine.of(Bert(config), precision="bfloat16")
        assert (engine.device, engine.each) == (torch.device("cuda", 0), map)
        output = engine(Batch(torch.zeros(18).long(), torch.zeros(18).long(), layout))
    kernels._borders.cache_clear()  # it holds a fake tensor now
    assert calls == [(18, 4, 16), (18, 4, 16)]
    for value, shape in ((output.hidden, (18, 64)), (output.labels, (18, 2))):
        assert value is not None
        assert (value.device.type, value.dtype, value.shape) == ("cuda", torch.float32, shape)
