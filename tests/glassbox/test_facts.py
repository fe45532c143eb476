"""Every table of numbers that the documents give, read from what a command prints."""

import json
import re
from typing import Any

import pytest

from glassbert.cli.main import main
from helpers.documents import FEED_FORWARD


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: str) -> str:
        assert main(list(arguments)) == 0
        return capsys.readouterr().out

    return run


def test_backprop_prints_the_feed_forward_table_and_its_slips(printed: Any) -> None:
    text = printed("lab", "backprop")
    table = text.split("All values")[1].split("\n\n")[0]
    rows = dict(re.findall(r"^  (.+?)  +(-?[\d.]+)$", table, re.MULTILINE))
    assert {name: rows.get(name) for name in FEED_FORWARD} == FEED_FORWARD
    for slip in ("0.0821670349", "0.751365095", "that is d loss/d b4", "the updated W2 would give"):
        assert slip in text
    assert "(2+1)*4 = 12 parameters" in printed("lab", "linear")


PARAMETERS = {
    "token": 21_635_072,
    "segment": 2_048,
    "position": 524_288,
    "norm": 2_048,
    "= embeddings": 22_163_456,
    "= attention": 4_198_400,
    "attention_norm": 2_048,
    "mlp_norm": 2_048,
    "mlp.inner": 4_198_400,
    "mlp.outer": 4_195_328,
    "= feed-forward": 8_393_728,
    "= one block": 12_596_224,
    "= all 24 blocks": 302_309_376,
    "= total": 324_472_832,
    "encoder": 324_472_832,
}


def test_params_prints_the_table_of_bert_large_chinese(printed: Any) -> None:
    table = printed("params", "bert-large-zh")
    head, rest = table.split("ways to count")
    lines = [line.strip() for line in (*head.split("not in the total")[0].splitlines(), *rest.splitlines())]
    for name, count in PARAMETERS.items():
        assert any(line.startswith(f"{name} ") and f" {count:,}" in line for line in lines), name
    assert "pooler (1,049,600), mlm (1,072,776), nsp (2,050)" in table
    assert "feature j is multiplied by gamma[j], and beta[j] is added" in table
    assert "the same numbers serve every position" in table


@pytest.mark.parametrize(
    ("name", "with_pooler"), [("bert-base", "109,482,240"), ("bert-large", "335,141,888")]
)
def test_params_prints_the_published_models_with_their_pooler(
    name: str, with_pooler: str, printed: Any
) -> None:
    line = next(one for one in printed("params", name).splitlines() if one.startswith("with pooler "))
    assert line.split()[-1] == with_pooler


def test_params_prints_the_shape_of_the_published_transformer(printed: Any) -> None:
    table = printed("params", "transformer-base")
    assert "D = 512 hidden size" in table
    assert "I = 2048 inner width" in table
    assert "each of 6 encoder blocks" in table
    assert "each of 6 decoder blocks" in table


def test_saturation_prints_the_share_of_the_largest_input(printed: Any) -> None:
    found = json.loads(printed("lab", "saturation", "--json"))
    shares = {row[0]: row[1] for row in found["tables"][0]["rows"]}
    assert (shares["1"], shares["10"]) == ("0.5761168847658291", "0.9999092083843410")
    assert float(shares["100"]) == 1.0
    assert found["tables"][0]["rows"][-1][4] < 1e-40  # the Jacobian goes to zero


def test_waves_print_one_matrix_for_every_position(printed: Any) -> None:
    assert "one matrix for 512 positions" in printed("lab", "waves")
