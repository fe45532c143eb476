import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import glassbert as gb
from glassbert.cli.main import main
from glassbert.errors import UserError
from glassbert.glassbox.lab.backprop import BackpropSettings, autograd, numeric
from glassbert.glassbox.lab.network import ACTIVATIONS, LOSSES
from glassbert.glassbox.lab.result import Result
from helpers.documents import FEED_FORWARD as EXACT
from helpers.small_model import small_folder


def values_of(result: Result) -> dict[str, Any]:
    return {str(row[0]): row[1] for row in result.tables[0].rows}


@pytest.fixture(scope="module")
def article() -> Result:
    return gb.lab("backprop")


def test_the_articles_network_has_its_exact_values_to_ten_digits(article: Result) -> None:
    values = values_of(article)
    assert {name: f"{values[name]:.10f}" for name in EXACT} == EXACT


def test_every_exact_value_is_written_out_in_a_line_of_arithmetic(article: Result) -> None:
    lines = [str(line) for steps in article.steps for line in steps.lines]
    for name, value in EXACT.items():
        written = name.removesuffix(" after")
        assert any(line.startswith(f"{written} = ") and line.endswith(f" = {value}") for line in lines), name


def test_the_slips_of_the_article_are_named_with_the_right_values(article: Result) -> None:
    slips = {str(row[0]): row[1:] for row in article.tables[2].rows}
    assert slips["d loss/d w5"] == ("0.0821670349", "0.0821670406", "-5.7e-09")
    assert "d loss/d w8" not in slips
    said = {claim.statement.en: (claim.verdict, claim.found.en) for claim in article.claims}
    assert said["d loss/d w5 = 0.0821670349."][0] == "does not hold"
    assert "a digit of 0.7513650695 was lost" in said["d loss/d w5 = 0.0821670349."][1]
    assert said["In the output layer, d loss/d w4 = -0.0380982365."][0] == "does not hold"


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_by_hand_are_those_of_autograd_and_of_small_steps(activation: Any, loss: Any) -> None:
    if loss == "cross_entropy" and activation != "sigmoid":
        return
    settings = BackpropSettings(
        inputs=(0.5, -1.0, 0.25),
        weights1=((0.1, -0.4, 0.3), (0.7, 0.2, -0.6)),
        bias1=(0.05, -0.1),
        weights2=((0.3, 0.9), (-0.8, 0.4), (0.2, 0.1)),
        bias2=(0.1, 0.2, 0.3),
        target=(0.2, 0.9, 0.5),
        activation=activation,
        loss=loss,
    )
    network, weights = settings.network(), settings.weights()
    by_hand = network.backward(weights, network.forward(weights)).weights.flat()
    assert by_hand == pytest.approx(autograd(settings), abs=1e-14)
    assert by_hand == pytest.approx(numeric(settings), abs=1e-8)


def test_a_network_of_ones_own_can_be_given_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["inputs=[1, 2]", "activation=tanh", "loss=mean_squares", "learning_rate=0.1"]
    assert main(["lab", "backprop", "--json", *(part for one in changes for part in ("--set", one))]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["settings"]["inputs"] == [1.0, 2.0]
    assert len(found["tables"]) == 2, "the slips are the article's, not those of another network"
    values = dict(found["tables"][0]["rows"])
    assert values["hidden1"] == pytest.approx(math.tanh(0.15 + 2 * 0.2 + 0.35))
    assert values["loss after"] < values["loss"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"inputs": [1.0]}, "a row of weights1 has 2 numbers; expected 1"),
        ({"target": [1.0]}, "target has 1 numbers, and there are 2 outputs"),
        ({"bias1": []}, "layer 1 is empty"),
        ({"loss": "cross_entropy", "activation": "tanh"}, "set activation=sigmoid"),
        ({"loss": "cross_entropy", "target": [2.0, 0.0]}, "expects numbers from 0 to 1"),
        ({"learning_rate": math.inf}, "expected finite ones"),
        ({"activation": "step"}, "expected one of sigmoid, tanh"),
        ({"inputs": 3}, "expected a list"),
        ({"inputs": ["a", "b"]}, "expected a number"),
        ({"lerning_rate": 1}, "did you mean backprop.learning_rate?"),
    ],
)
def test_a_network_that_does_not_fit_together_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message.replace("?", r"\?")):
        gb.lab("backprop", **settings)


def test_a_layer_from_2_to_4_has_12_parameters_and_shapes_that_agree() -> None:
    result = gb.lab("linear")
    shapes = {str(row[0]): (row[1], row[3]) for row in result.tables[0].rows}
    assert shapes["W"] == ("(4, 2)", 8)
    assert shapes["b"] == ("(4,)", 4)
    assert "= 12 parameters" in result.meaning.en
    lines = result.steps[0].lines
    assert (
        "y1 = x1*w11 + x2*w12 + b1 = 0.05*0.15 + 0.1*0.2 + 0.35 = 0.0075 + 0.02 + 0.35 = 0.3775000000"
        in lines
    )
    with pytest.raises(UserError, match="expected 2, one per input"):
        gb.lab("linear", weights=[[1.0]] * 4)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(small_folder(tmp_path_factory.mktemp("model") / "bert"))


@pytest.mark.parametrize("name", ["unit", "cell", "norm"])
def test_what_is_written_out_is_what_the_model_computes(name: str, model: str) -> None:
    result = gb.lab(name, model=model, text="a b c", layer=1, token=2, num_rows=3)
    assert [claim.verdict for claim in result.claims] == ["holds"] * len(result.claims)
    assert result.claims


def test_the_terms_of_a_unit_add_up_to_what_float64_gives(model: str) -> None:
    result = gb.lab("unit", model=model, text="a b", layer=0, token=1, unit=5, num_rows=4)
    *terms, total = (row[3] for row in result.tables[0].rows)
    assert len(terms) == 4 + 1 + 1
    assert sum(terms) == pytest.approx(total, abs=1e-12)
    network = gb.load(model).network.double()
    batch = gb.Batch.from_lists([gb.load(model).tokenize(["a b"])[0].ids])
    seen: dict[str, torch.Tensor] = {}
    with torch.no_grad():
        network(batch, tap=gb.Tap(seen.setdefault))
    x, layer = seen["enc.0.attn.norm"][1], network.encoder.blocks[0].mlp.inner
    assert total == pytest.approx((x @ layer.weight[5] + layer.bias[5]).item(), abs=1e-12)


def test_the_row_of_a_cell_is_a_distribution_over_the_tokens(model: str) -> None:
    result = gb.lab("cell", model=model, text="a b c", head=1, key=0)
    assert sum(row[5] for row in result.tables[1].rows) == pytest.approx(1)
    assert [str(row[0]) for row in result.tables[1].rows][:2] == ["0 [CLS]", "1 a"]


def test_gamma_is_the_same_for_every_token_and_the_mean_is_not(model: str) -> None:
    table = gb.lab("norm", model=model, text="a b c", feature=3).tables[0]
    assert len(set(table.column(5))) == 1
    assert len(set(table.column(1))) == len(table.rows)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("unit", {"layer": 9}, "layer=9; the model has blocks 0 to 1"),
        ("unit", {"token": 50}, "token=50; the text has tokens 0 to"),
        ("unit", {"unit": 64}, "unit=64; expected from 0 to 63"),
        ("cell", {"head": 2}, "head=2; the model has heads 0 to 1"),
        ("cell", {"key": 50}, "key=50; the text has tokens 0 to"),
        ("norm", {"feature": 32}, "feature=32; expected from 0 to 31"),
    ],
)
def test_a_place_that_the_model_lacks_is_named_with_what_there_is(
    name: str, settings: dict[str, Any], message: str, model: str
) -> None:
    with pytest.raises(UserError, match=message):
        gb.lab(name, **{"model": model, "text": "a b c", **settings})


def test_a_model_that_is_not_there_ends_with_exit_code_4(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["lab", "cell", "--set", f"model={tmp_path / 'none'}"]) == 4
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", ["unit", "cell", "norm", "variance", "heads"])
def test_a_text_that_is_too_long_is_cut_with_a_word_on_it(name: str, tmp_path: Path) -> None:
    model = str(small_folder(tmp_path / "bert"))
    room = gb.load(model, gb.Model).max_length
    few = {"heads": {"num_seeds": 2, "num_steps": 1}, "variance": {"num_seeds": 2, "sizes": [4]}}.get(
        name, {}
    )
    texts = ["a " * (room - 2), "a " * (room - 2) + "b c d"]
    whole, cut = (gb.lab(name, model=model, text=text, **few).text() for text in texts)
    assert "longer than what the model reads" not in whole
    assert f"reads {room} tokens; 3 more were cut, from character {2 * (room - 2)} on: b c d" in cut


@pytest.mark.parametrize("name", ["unit", "cell", "norm", "variance", "heads"])
def test_a_blank_text_is_refused(name: str, model: str) -> None:
    with pytest.raises(UserError, match="the text is blank"):
        gb.lab(name, model=model, text=" \n")
