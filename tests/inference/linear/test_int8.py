from typing import Any

import pytest
import torch

from glassbert.errors import ModelError
from glassbert.inference.linear import int8, onednn
from glassbert.inference.linear.int8 import InputForm, Int8Embedding, Int8Linear, smoothing_of
from glassbert.model.linear import ACTIVATIONS, Linear
from glassbert.model.quantised import quantised_rows

pytestmark = pytest.mark.skipif(not int8.is_available(), reason="no product of integers on this CPU")


def layer(inputs: int = 24, outputs: int = 40, *, has_bias: bool = True) -> Linear:
    torch.manual_seed(0)
    return Linear(inputs, outputs, bias=has_bias).eval()


@pytest.mark.parametrize("check", [int8.is_available, onednn.plain_is_faster])
def test_a_check_of_the_machine_leaves_the_random_numbers_of_all_threads_alone(
    check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = torch.get_rng_state()
    monkeypatch.setattr(torch, "set_rng_state", None)  # another thread may have taken some meanwhile
    check.cache_clear()
    check()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("activation", [None, "gelu", "gelu_new", "relu", "silu", "tanh"])
@pytest.mark.parametrize("has_residual", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_an_int8_layer_computes_the_same_up_to_its_steps(
    activation: str | None, has_residual: bool, has_bias: bool
) -> None:
    plain = layer(has_bias=has_bias)
    for rows in (0, 1, 7, 300):
        x = torch.randn(rows, 24)
        residual = torch.randn(rows, 40) if has_residual else None
        with torch.inference_mode():
            expected = plain(x, activation=activation, residual=residual)
            got = Int8Linear(plain)(x, activation=activation, residual=residual)
        torch.testing.assert_close(got, expected, atol=0.03, rtol=0.0)


@torch.inference_mode()
def test_products_are_those_of_the_integers_to_the_last_digit() -> None:
    plain = layer(512, 48, has_bias=False)
    # The largest bytes and weights: what adds up in 16 bits overflows with weights of 8.
    plain.weight.copy_(torch.randint(-63, 64, plain.weight.shape)).clamp_(-63, 63)
    plain.weight[:, 0] = 63
    plain.weight[0], plain.weight[1] = 63, -63
    x = torch.randint(-127, 128, (9, 512)).float()
    x[:, 0], x[0], x[1] = 127, 127, -127
    assert torch.equal(Int8Linear(plain)(x).double(), x.double() @ plain.weight.double().T)


@torch.inference_mode()
def test_weights_have_seven_bits_and_a_scale_for_each_row() -> None:
    weight = torch.tensor([[0.6, -1.0, 0.25], [0.0, 0.0, 0.0], [6.3, 0.1, -0.04]])
    numbers, scale = quantised_rows(weight, 63)
    assert numbers.tolist() == [[38, -63, 16], [0, 0, 0], [63, 1, 0]]
    torch.testing.assert_close(scale[[0, 2], 0], torch.tensor([1 / 63, 0.1]))
    assert (weight - numbers * scale).abs().le(scale / 2 + 1e-9).all()


@torch.inference_mode()
def test_bytes_are_the_nearest_and_each_token_has_its_own_scale() -> None:
    x = torch.tensor([[1.0, -2.0, 0.5, 0.0], [254.0, 127.0, -126.0, 3.0], [0.0, 0.0, 0.0, 0.0]])
    found, scale = InputForm()(x)
    assert found.tolist() == [[192, 1, 160, 128], [255, 192, 65, 130], [128, 128, 128, 128]]
    torch.testing.assert_close(scale[:2, 0], torch.tensor([2 / 127, 2.0]))


@torch.inference_mode()
def test_what_follows_an_activation_gets_all_its_bytes_above_the_lowest() -> None:
    for activation, lowest in int8.LOWEST.items():
        values = ACTIVATIONS[activation](torch.linspace(-12, 12, 100001))
        assert lowest - 2e-3 < values.min() - 1e-3 < values.min()
        assert values.min() >= lowest
        x = ACTIVATIONS[activation](torch.randn(5, 24))
        plain = layer(has_bias=False)
        expected = plain(x)
        error = (Int8Linear(plain, InputForm(lowest=lowest))(x.clone()) - expected).abs().max()
        assert error < (Int8Linear(plain)(x) - expected).abs().max() * 1.2


@torch.inference_mode()
def test_smoothing_changes_nothing_but_the_steps() -> None:
    norm, plain = torch.nn.LayerNorm(24), layer()
    norm.weight.copy_(torch.rand(24) + 0.1)
    norm.weight[3] = 30.0  # one large feature, as trained models have them
    norm.weight[5] = norm.bias[5] = 0.0  # a feature that says nothing
    plain.weight[:, 7] = 0.0  # a feature that nobody reads
    x = norm(torch.randn(200, 24))
    smoothing = smoothing_of(norm, [plain])
    assert smoothing.isfinite().all()
    assert smoothing[5] == smoothing[7] == 1.0
    expected = plain(x)
    rough = (Int8Linear(plain)(x) - expected).abs().mean()
    smooth = (Int8Linear(plain, InputForm(smoothing))(x) - expected).abs().mean()
    assert smooth < 0.7 * rough


@pytest.mark.parametrize("width", [40, 64, 1536])
@pytest.mark.parametrize("activation", ["gelu", "tanh", "silu"])
@torch.inference_mode()
def test_a_row_has_the_same_bits_in_any_place_and_on_any_number_of_threads(
    width: int, activation: str
) -> None:
    narrow, num_threads = Int8Linear(layer(24, width)), torch.get_num_threads()
    x = torch.randn(61, 24)
    try:
        torch.set_num_threads(1)
        alone = torch.cat([narrow(row[None], activation=activation) for row in x])
        for number in (1, 3):
            torch.set_num_threads(number)
            assert torch.equal(narrow(x, activation=activation), alone)
            assert torch.equal(narrow(x.flip(0), activation=activation).flip(0), alone)
    finally:
        torch.set_num_threads(num_threads)


@torch.inference_mode()
def test_layers_share_the_bytes_of_one_input() -> None:
    form = InputForm()
    first, second = Int8Linear(layer(), form), Int8Linear(layer(24, 8), form)
    x = torch.randn(3, 24)
    rows = first.prepare(x)
    assert first.prepare(rows) is rows
    assert torch.equal(first(rows), first(x))
    assert torch.equal(second(rows), second(x))


@torch.inference_mode()
def test_a_table_gives_its_rows_back_within_half_a_step() -> None:
    table = torch.nn.Embedding(50, 16)
    ids = torch.tensor([3, 3, 49, 0])
    got = Int8Embedding(table)(ids)
    step = table.weight[ids].abs().amax(1, keepdim=True) / 127
    assert ((got - table.weight[ids]).abs() <= step * 0.501).all()
    assert Int8Embedding(table).numbers.dtype == torch.int8


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_weight_that_is_no_number_is_refused(value: float) -> None:
    plain = layer()
    with torch.no_grad():
        plain.weight[2, 3] = value
    with pytest.raises(ModelError, match="a weight is NaN or infinite, which int8 cannot hold"):
        Int8Linear(plain)


@torch.inference_mode()
def test_a_dead_layer_gives_exactly_its_bias_and_dead_inputs_too() -> None:
    plain = layer()
    expected = plain.bias.expand(2, -1)
    assert torch.equal(Int8Linear(plain)(torch.zeros(2, 24)), expected)
    plain.weight.zero_()
    assert torch.equal(Int8Linear(plain)(torch.randn(2, 24)), expected)


@torch.inference_mode()
def test_an_input_that_is_no_number_is_not_hidden() -> None:
    x = torch.randn(3, 24)
    x[1, 4] = float("nan")
    is_finite = Int8Linear(layer())(x).isfinite().all(1)
    assert is_finite.tolist() == [True, False, True]
