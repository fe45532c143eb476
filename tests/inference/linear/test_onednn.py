import pytest
import torch

from glassbert.inference.linear.onednn import OneDnnLinear
from glassbert.model.linear import Linear


@pytest.mark.parametrize("activation", [None, "gelu", "gelu_new", "relu", "silu"])
@pytest.mark.parametrize("has_residual", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_onednn_layer_computes_the_same(activation: str | None, has_residual: bool, has_bias: bool) -> None:
    torch.manual_seed(0)
    plain = Linear(24, 40, bias=has_bias).eval()
    layer = OneDnnLinear(plain)
    for rows in (1, 7, 300):
        x = torch.randn(rows, 24)
        residual = torch.randn(rows, 40) if has_residual else None
        with torch.inference_mode():
            expected = plain(x, activation=activation, residual=residual)
            got = layer(x, activation=activation, residual=residual)
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)
