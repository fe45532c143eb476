"""Small forms of the experiments: direction and interval of what they find."""

import pytest
import torch

import glassbert as gb
from glassbert.errors import UserError
from glassbert.glassbox.lab.estimate import Estimate
from glassbert.glassbox.lab.result import Result
from helpers.small_model import small_folder


def verdicts(result: Result) -> list[str]:
    return [claim.verdict for claim in result.claims]


def test_softmax_saturates_and_its_jacobian_goes_to_zero() -> None:
    result = gb.lab("saturation")
    assert result.tables[0].column(1) == (
        "0.5761168847658291",
        "0.9867032910422680",
        "0.9999092083843410",
        "1.0000000000000000",
    )
    slopes = result.tables[0].column(2)
    assert slopes[:3] == pytest.approx((0.24420621992, 0.01311990638, 9.0783373e-05))
    assert slopes[3] == 0.0
    jacobian = [row[1:] for row in result.tables[1].rows]
    assert torch.tensor(jacobian).sum(dim=1).abs().max() < 1e-12
    assert verdicts(result) == ["holds"] * 3


def test_the_variance_of_a_dot_product_is_d_k_and_one_with_the_scale(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    model = str(small_folder(tmp_path_factory.mktemp("model") / "bert"))
    result = gb.lab("variance", sizes=[4, 64], num_queries=64, num_seeds=3, model=model, text="a b c")
    raw, scaled = result.tables[0].rows[1][1:3]
    assert isinstance(raw, Estimate)
    assert isinstance(scaled, Estimate)
    assert raw.low < 64 < raw.high or abs(raw.mean - 64) < 6
    assert scaled.mean == pytest.approx(raw.mean / 64, rel=1e-4)
    assert verdicts(result)[2] == "holds"
    assert result.seeds == (0, 1, 2)
    assert verdicts(result)[3] == "does not hold", "fresh weights of deviation 0.02 give tiny scores"


def test_one_matrix_moves_every_position() -> None:
    result = gb.lab("waves", num_features=6, distance=7, num_positions=100)
    matrix = torch.tensor([row[1:] for row in result.tables[0].rows])
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(6), atol=1e-6, rtol=0)
    assert verdicts(result) == ["holds"]
    with pytest.raises(UserError, match="expected an even number"):
        gb.lab("waves", num_features=5)


def test_one_pass_and_steps_give_the_same_logits_and_steps_take_longer() -> None:
    result = gb.lab("forcing", lengths=[2, 24], hidden_size=16, num_layers=1, num_seeds=2, num_repeats=2)
    assert all(row[1] < 1e-4 for row in result.tables[0].rows)
    once, cached, again = (cell.mean for cell in result.tables[0].rows[1][2:])
    assert once < cached
    assert once < again


def test_only_attention_lets_tokens_depend_on_each_other_and_only_decoding_loops() -> None:
    result = gb.lab("parallel", length=6, hidden_size=8, num_layers=1, source_length=4)
    assert [row[1] for row in result.tables[1].rows] == [1, 1, 1, 6, 3, 6]
    calls = {row[0].en: row[1:] for row in result.tables[0].rows}
    assert calls["encoder: feed-forward"] == (1, 4, 1, 4)
    assert calls["decoder: self-attention"] == (1, 6, 6, 1)
    assert verdicts(result) == ["holds", "holds", "does not hold", "holds", "holds"]


def test_without_residuals_gradients_fade_and_without_norm_variance_grows() -> None:
    result = gb.lab("depth", num_layers=10, hidden_size=16, length=6, num_seeds=3)
    assert verdicts(result) == ["holds", "holds", "holds"]
    growth = {row[0].en: row[1].mean for row in result.tables[0].rows}
    assert abs(growth["as published: residual, norm after"]) < 0.2
    assert growth["no LayerNorm"] > 2
    with pytest.raises(UserError, match="multiple of 4"):
        gb.lab("depth", hidden_size=6)
