import pytest
import torch

from glassbert.model.linear import Linear


@pytest.mark.parametrize("activation", [None, "gelu", "gelu_new", "relu", "silu"])
@pytest.mark.parametrize("has_residual", [False, True])
def test_without_gradients_the_same_comes_out_and_what_went_in_stays(
    activation: str | None, has_residual: bool
) -> None:
    torch.manual_seed(0)
    layer = Linear(24, 40).eval()
    x, residual = torch.randn(7, 24), torch.randn(7, 40) if has_residual else None
    expected = layer(x, activation=activation, residual=residual)
    before = [x.clone(), None if residual is None else residual.clone()]
    with torch.no_grad():
        assert torch.equal(layer(x, activation=activation, residual=residual), expected)
    assert torch.equal(x, before[0])
    assert residual is None or torch.equal(residual, before[1])


def test_dropout_works_without_gradients_too() -> None:
    torch.manual_seed(0)
    layer, x = Linear(24, 40).train(), torch.randn(7, 24)
    with torch.no_grad():
        assert not torch.equal(layer(x, dropout=0.5), layer(x))


def test_a_narrow_product_is_added_to_a_wide_residual() -> None:
    layer, x, residual = Linear(24, 40).eval(), torch.randn(7, 24), torch.randn(7, 40)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = layer(x, residual=residual)
        with torch.no_grad():
            got = layer(x, residual=residual)
    assert got.dtype == expected.dtype == torch.float32
    assert torch.equal(got, expected)
