import pytest
import torch
from torch import nn

from glassbert.config import BertConfig, ModelConfig
from glassbert.errors import UserError
from glassbert.inference import prepare
from glassbert.inference.linear import onednn
from glassbert.inference.linear.onednn import OneDnnLinear
from glassbert.inference.prepare import Precision, choose_device, prepared
from glassbert.model.bert import Bert
from glassbert.model.init import new_bert
from glassbert.model.layout import Batch
from glassbert.model.linear import Linear

CPU = torch.device("cpu")
SHAPE = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32
)


def make() -> Bert:
    return new_bert(ModelConfig(encoder=SHAPE, head="pretraining"), seed=0).eval()


@pytest.mark.parametrize(
    ("plain_is_faster", "has_long_batches", "num_layers"),
    [(True, True, 0), (True, False, 12), (False, True, 12)],
)
def test_onednn_where_it_pays_changes_no_answer_and_leaves_the_network_alone(
    plain_is_faster: bool, has_long_batches: bool, num_layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onednn, "plain_is_faster", lambda: plain_is_faster)
    network = make()
    twin = prepared(network, device=CPU, has_long_batches=has_long_batches)
    assert not any(isinstance(module, OneDnnLinear) for module in network.modules())
    assert sum(isinstance(module, OneDnnLinear) for module in twin.modules()) == num_layers
    assert twin.encoder.embeddings.token.weight is network.encoder.embeddings.token.weight
    batch = Batch.from_lists([[2, 7, 9, 3], [2, 8, 3]])
    with torch.inference_mode():
        at = torch.tensor([1])
        expected, got = network(batch, predict_at=at), twin(batch, predict_at=at)
    torch.testing.assert_close(got.hidden, expected.hidden, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(got.mlm, expected.mlm, atol=1e-5, rtol=1e-5)


def test_another_precision_copies_the_weights_and_keeps_tied_ones_tied() -> None:
    network = make()
    twin = prepared(network, device=CPU, precision="bfloat16", has_long_batches=True)
    assert {parameter.dtype for parameter in twin.parameters()} == {torch.bfloat16}
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}
    assert twin.mlm is not None
    assert twin.mlm.decoder.weight is twin.encoder.embeddings.token.weight


def test_a_prepared_network_neither_drops_nor_learns() -> None:
    network = make().train()
    for precision in ("float32", "bfloat16"):
        twin = prepared(network, device=CPU, precision=precision, has_long_batches=True)
        assert not any(module.training for module in twin.modules())
    assert network.training
    assert not any(parameter.requires_grad for parameter in twin.parameters())


@pytest.mark.parametrize("also", [[], ["nsp"]])
def test_a_backend_takes_layers_outside_of_blocks_only_where_it_is_told(also: list[str]) -> None:
    twin = prepared(make(), device=CPU, has_long_batches=False, also=also)
    assert isinstance(twin.nsp, OneDnnLinear) == bool(also)


def test_a_new_backend_is_one_row_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    class Doubled(nn.Module):
        def __init__(self, linear: Linear) -> None:
            super().__init__()
            self.linear = linear

        def forward(self, x: torch.Tensor, **options: object) -> torch.Tensor:
            return 2 * self.linear(x, **options)

    monkeypatch.setitem(prepare.PRECISIONS, "doubled", Precision(torch.float32, Doubled))  # type: ignore[arg-type]
    twin = prepared(make(), device=CPU, precision="doubled", has_long_batches=True)  # type: ignore[arg-type]
    assert sum(isinstance(module, Doubled) for module in twin.modules()) == 12


def test_auto_takes_a_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == CPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda", 1)
    assert choose_device("cpu") == CPU


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="device='cuda', but torch sees no GPU; use 'cpu' or 'auto'"):
        choose_device("cuda")
    with pytest.raises(UserError, match="device='tpu'; expected one of auto, cpu, cuda"):
        choose_device("tpu")


def test_a_precision_that_cannot_be_had_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="precision='int4'; expected one of float32, bfloat16, int8"):
        prepared(make(), device=CPU, precision="int4", has_long_batches=True)  # type: ignore[arg-type]
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    with pytest.raises(UserError, match="this GPU cannot compute in it; use 'float32'"):
        prepared(make(), device=torch.device("cuda"), precision="bfloat16", has_long_batches=True)
