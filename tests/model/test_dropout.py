import pytest
import torch

from glassbert.model.dropout import dropout


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.003])
def test_drops_its_share_in_every_lane_and_keeps_the_mean(probability: float) -> None:
    torch.manual_seed(0)
    y = dropout(torch.ones(1000, 1000), probability, True)
    for lane in range(4):  # four features come from one draw
        share = (y[:, lane::4] == 0).double().mean().item()
        assert share == pytest.approx(probability, abs=0.002)
    assert y.double().mean().item() == pytest.approx(1.0, abs=0.002)
    assert y[y != 0].unique().tolist() == pytest.approx([1 / (1 - probability)], rel=1e-4)


def test_features_of_one_draw_fall_independently() -> None:
    torch.manual_seed(0)
    dropped = (dropout(torch.ones(400_000, 4), 0.5, True) == 0).double()
    assert torch.corrcoef(dropped.T).fill_diagonal_(0).abs().max() < 0.01


def test_is_a_function_of_the_seed() -> None:
    x = torch.randn(7, 5)  # a size that no draw fills evenly
    torch.manual_seed(3)
    first, second = dropout(x, 0.3, True), dropout(x, 0.3, True)
    torch.manual_seed(3)
    assert torch.equal(dropout(x, 0.3, True), first)
    assert not torch.equal(first, second)


def test_gradient_flows_where_the_numbers_did() -> None:
    x = torch.randn(64, 64, requires_grad=True)
    y = dropout(x, 0.4, True)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad * x, y)


@pytest.mark.parametrize(("probability", "is_training"), [(0.0, True), (0.5, False)])
def test_leaves_the_input_alone_without_need(probability: float, is_training: bool) -> None:
    x = torch.randn(3, 3)
    assert dropout(x, probability, is_training) is x


def test_keeps_the_precision_of_its_input() -> None:
    assert dropout(torch.ones(8, dtype=torch.bfloat16), 0.5, True).dtype == torch.bfloat16
